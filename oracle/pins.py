"""A pin: the exact upstream that serves as reference, as its file in `oracle/pins/` states it.

A pin is a claim; `oracle/verify.py` measures whether what is installed honours it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from oracle.errors import OracleFault

DEFAULT_PIN = "vllm-0.27.1"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*([a-z]+[0-9]+)?(\.post[0-9]+)?")
_TEXTS = ("package", "version", "reports", "tag", "commit", "lock", "note")
_TABLES = ("wheel", "files")


@dataclass(frozen=True)
class Wheel:
    """The one archive that may be installed: its file name and the hex sha256 of its bytes."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Pin:
    """An exact upstream.

    `reports` is the version string that upstream itself must report, `commit` a prefix (seven digits or more) of the
    commit that a checkout's HEAD must have, `lock` the file with its dependencies, `files` the path
    (`vllm/…`) and digest (`sha256:…`) of every upstream file that drivers and records rely on.
    """

    name: str
    package: str
    version: str
    reports: str
    tag: str
    commit: str
    lock: Path
    note: str
    wheel: Wheel
    files: dict[str, str]

    def is_commit(self, commit: str) -> bool:
        """Whether a full commit id is the one that this pin names, as far as the pin knows it."""
        return commit.startswith(self.commit)


def available(root: Path) -> list[str]:
    """The names of all pins of the checkout, sorted."""
    return sorted(path.stem for path in (root / "oracle" / "pins").glob("*.toml"))


def load_pin(root: Path, name: str | None = None) -> Pin:
    """The pin called `name` (default: DEFAULT_PIN). Raises OracleFault naming the file and the key at fault."""
    name = DEFAULT_PIN if name is None else name
    names = available(root)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise OracleFault(f"no pin {name!r}", f"{guess}the pins are: {', '.join(names) or 'none'}")
    path = root / "oracle" / "pins" / f"{name}.toml"
    where = f"oracle/pins/{name}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise OracleFault(f"{where}: {error}", "correct the file") from error
    return _Reader(where, table).pin(name, path.parent)


class _Reader:
    """Takes a pin's table apart, key by key, so that each fault names its key."""

    def __init__(self, where: str, table: dict[str, object]) -> None:
        self.where = where
        self.table = table

    def pin(self, name: str, folder: Path) -> Pin:
        self._only(self.table, (*_TEXTS, *_TABLES), "")
        text = {key: self._text(self.table, key, "") for key in _TEXTS}
        self._match("version", text["version"], _VERSION, "a version such as 0.27.1")
        self._match("reports", text["reports"], _VERSION, "a version such as 0.27.1")
        self._match("commit", text["commit"], _COMMIT, "7 to 40 lower-case hex digits")
        lock = folder / text["lock"]
        if lock.parent != folder or not lock.is_file():
            raise self._fault("lock", f"no file {text['lock']!r} in oracle/pins/")
        return Pin(
            name=name,
            package=text["package"],
            version=text["version"],
            reports=text["reports"],
            tag=text["tag"],
            commit=text["commit"],
            lock=lock,
            note=" ".join(text["note"].split()),
            wheel=self._wheel(),
            files=self._files(),
        )

    def _wheel(self) -> Wheel:
        wheel = self._table("wheel")
        self._only(wheel, ("file", "sha256"), "wheel.")
        file = self._text(wheel, "file", "wheel.")
        sha256 = self._text(wheel, "sha256", "wheel.")
        if not file.endswith(".whl") or "/" in file:
            raise self._fault("wheel.file", "must be the name of a .whl file")
        self._match("wheel.sha256", sha256, _SHA256, "64 lower-case hex digits")
        return Wheel(file=file, sha256=sha256)

    def _files(self) -> dict[str, str]:
        files = self._table("files")
        if not files:
            raise self._fault("files", "names no upstream file, so nothing could be verified")
        checked: dict[str, str] = {}
        for path, digest in files.items():
            key = f'files."{path}"'
            pure = PurePosixPath(path)
            if pure.parts[:1] != ("vllm",) or ".." in pure.parts or str(pure) != path:
                raise self._fault(key, "must be a path that begins with vllm/")
            if not isinstance(digest, str) or not _SHA256.fullmatch(digest.removeprefix("sha256:")):
                raise self._fault(key, "must be sha256: and 64 lower-case hex digits")
            checked[path] = "sha256:" + digest.removeprefix("sha256:")
        return checked

    def _table(self, key: str) -> dict[str, object]:
        value = self.table.get(key)
        if not isinstance(value, dict):
            raise self._fault(key, f"must be a table [{key}]")
        return value

    def _text(self, table: dict[str, object], key: str, prefix: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self._fault(prefix + key, "must be a text" if key in table else "is missing")
        return value

    def _only(self, table: dict[str, object], known: tuple[str, ...], prefix: str) -> None:
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                guess = f"; did you mean {prefix}{near[0]}?" if near else ""
                raise self._fault(prefix + key, f"unknown key{guess}")

    def _match(self, key: str, value: str, pattern: re.Pattern[str], what: str) -> None:
        if not pattern.fullmatch(value):
            raise self._fault(key, f"must be {what}, not {value!r}")

    def _fault(self, key: str, message: str) -> OracleFault:
        return OracleFault(f"{self.where}: {key}: {message}", "correct the file")
