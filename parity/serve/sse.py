"""Server-sent events: the bytes of a stream as frames, with nothing dropped silently.

A frame is what stands between two blank lines. Clients differ in how much of the format they read, so what
a lenient one would not even notice (line ends, a missing space, blank lines without a frame) is kept as an oddity.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

CARRIAGE_RETURNS = "lines end with a carriage return"
UNSPACED = "no space after the colon of a data line"
BLANK = "a blank line that ends no frame"
NOT_UTF8 = "bytes that are no UTF-8"
SPLIT = "the data of a frame on several lines"

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a carriage return at the very end may be half of a CRLF

Kind = Literal["data", "fields", "comment", "partial"]


class Frame(msgspec.Struct, frozen=True):
    """One thing that came.

    data     `text` is the data lines joined by newlines; `fields` are the frame's other lines, in order
    fields   a frame without data: `fields` alone
    comment  a line that begins with a colon; `text` is the whole line
    partial  `text` is what came of a frame that the end of the stream cut off, as it came
    """

    kind: Kind
    text: str
    fields: tuple[tuple[str, str], ...] = ()


class FrameReader:
    """Turns chunks of bytes, cut anywhere, into frames.

    Invariant: `_pending` holds no complete line, but for one whose carriage return may be half of a CRLF.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.oddities: set[str] = set()
        self.data_frames = 0
        self._pending = bytearray()
        self._lines: list[str] = []  # of the frame under way, comments left out
        self._comment_open = False  # a comment came that no blank line has ended yet

    def feed(self, chunk: bytes) -> None:
        looked_at = max(0, len(self._pending) - 1)  # but for half of a CRLF, which stands last
        self._pending += chunk
        start = 0
        for end in _LINE_END.finditer(self._pending, looked_at):
            if end[0] != b"\n":
                self.oddities.add(CARRIAGE_RETURNS)
            self._take(self._text(bytes(self._pending[start : end.start()])))
            start = end.end()
        if start:
            del self._pending[:start]

    def close(self) -> list[Frame]:
        """The end of the stream: what is left of a frame becomes a partial one. Gives all frames."""
        if self._pending.endswith(b"\r"):
            self.oddities.add(CARRIAGE_RETURNS)
            self._take(self._text(bytes(self._pending[:-1])))
            self._pending.clear()
        left = [*self._lines, *([self._text(bytes(self._pending))] if self._pending else [])]
        if left:
            self.frames.append(Frame("partial", "\n".join(left)))
        self._lines, self._pending = [], bytearray()
        return self.frames

    def _text(self, line: bytes) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError:
            self.oddities.add(NOT_UTF8)
            return line.decode(errors="backslashreplace")

    def _take(self, line: str) -> None:
        if line.startswith(":"):
            self.frames.append(Frame("comment", line))
            self._comment_open = True
        elif line:
            self._lines.append(line)
        else:
            if self._lines:
                self._dispatch()
            elif not self._comment_open:
                self.oddities.add(BLANK)
            self._comment_open = False

    def _dispatch(self) -> None:
        data: list[str] = []
        fields: list[tuple[str, str]] = []
        for line in self._lines:
            name, _, value = line.partition(":")
            if name == "data":
                if value and not value.startswith(" "):
                    self.oddities.add(UNSPACED)
                data.append(value.removeprefix(" "))
            else:
                fields.append((name, value.removeprefix(" ")))
        self._lines = []
        if len(data) > 1:
            self.oddities.add(SPLIT)
        self.data_frames += bool(data)
        self.frames.append(Frame("data" if data else "fields", "\n".join(data), tuple(fields)))


def read(content: bytes, frames: int | None = None) -> FrameReader:
    """A whole stream at once, its reader closed; or no more of it than the first so many data frames."""
    reader = FrameReader()
    if frames is None:
        reader.feed(content)
        reader.close()
        return reader
    for line in content.splitlines(keepends=True):
        reader.feed(line)
        if reader.data_frames >= frames:
            break
    return reader
