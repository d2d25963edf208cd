"""How files of records reach the disk: all of them or none, and never in the place of another."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from parity.errors import RecordError
from parity.records.layout import create_all


def test_a_file_in_the_way_is_left_as_it_is_and_nothing_else_is_written(tmp_path: Path) -> None:
    there = tmp_path / "decided" / "b.md"
    there.parent.mkdir()
    there.write_text("precious")
    files = {tmp_path / "new" / "deep" / "a.md": "a", there: "b"}

    with pytest.raises(RecordError, match="exists already"):
        create_all(files)

    assert there.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["b.md", "decided"]


def test_a_disk_that_is_full_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def write(self, text: str) -> int:
            self._file.write(text[:1])
            raise OSError(28, "No space left on device")

    real = Path.open

    def opened(path: Path, *words: Any, **named: Any) -> Any:
        file = real(path, *words, **named)
        return Full(file) if path.name == "b.md" else file

    monkeypatch.setattr(Path, "open", opened)

    with pytest.raises(RecordError, match="No space left on device"):
        create_all(
            {tmp_path / "x" / "a.md": "a", tmp_path / "x" / "b.md": "bb", tmp_path / "x" / "c.md": "c"}
        )

    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_the_files_are_written_does_not_cut_them_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {tmp_path / f"{number}.md": "text" for number in range(3)}
    opened = Path.open

    def interrupting(path: Path, *words: Any, **named: Any) -> Any:
        if path.name == "1.md":
            signal.raise_signal(signal.SIGINT)
        return opened(path, *words, **named)

    monkeypatch.setattr(Path, "open", interrupting)

    create_all(files)

    assert len(list(tmp_path.iterdir())) == len(files)
