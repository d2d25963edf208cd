"""Streams as bytes from frames, and in canonical form: what the tests of that form share."""

from __future__ import annotations

import json
import time
from typing import Any

from parity.observation import Stream
from parity.serve.canonical import streamed
from parity.serve.normalise import Scrubber
from tests.parity.serve.streams import usage

NOW = int(time.time())


def events(*frames: Any) -> bytes:
    texts = [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames]
    return b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)


def part(text: str, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "text": text, "finish_reason": finish}], **more}


def folded(content: bytes, **options: Any) -> Stream:
    found = streamed(content, Scrubber("/m"), **options)
    assert found is not None
    return found


def stream(*frames: Any, **options: Any) -> Stream:
    return folded(events(*frames), **options)


def told(tokens: int) -> dict[str, Any]:
    return {"usage": usage(tokens)}
