"""A small suite, a newcomer in a checkout of its own, and the untouched engine in the place of upstream."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity import session
from parity.cli.main import main
from parity.engine_side import EngineSide
from parity.root import CODE_ROOT
from parity.subjects import players
from tests.parity.stand_in import MEASURED

SUITE = (
    "auto-fit/null-block",  # both sides break a promise there
    "caching/evicted-by-larger",
    "preemption/eight-on-five-blocks",
    "preemption/fcfs-self-preemption",
    "preemption/no-admission-in-that-step",
    "preemption/sole-request-outgrows-pool",  # and there
    "preemption/twice",
)
FILE = """
name = "newcomer"
mirrors = "vllm"
levels = ["plan", "schedule"]
capabilities = "all"
records = "decided"
suite = "0.1"

[door.process]
command = ["{python}", "subject.py"]
environment = { PYTHONPATH = "CODE" }
"""


class Upstream(EngineSide):
    """The engine, which answers as if it were upstream."""

    def hello(self) -> dict[str, Any]:
        return {"name": "stand-in", "version": MEASURED.version, "model_runner": "v1"}


class Newcomer:
    """`root` is the checkout, `file` the subject's, in a folder of its own."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder
        self.file = folder / "newcomer.toml"
        self.records = folder / "decided"

    def plant(self, **faults: str | list[str]) -> None:
        named = {name: [places] if isinstance(places, str) else places for name, places in faults.items()}
        (self.folder / "faults.json").write_text(json.dumps(named), encoding="utf-8")

    def rewrite(self, old: str, new: str) -> None:
        """Another text in the subject's file."""
        text = self.file.read_text(encoding="utf-8")
        assert old in text
        self.file.write_text(text.replace(old, new), encoding="utf-8")

    def add(self, name: str, like: str, since: str) -> None:
        """A scenario of that version of the suite, which asks what another one asks."""
        text = (CODE_ROOT / "parity" / "scenarios" / f"{like}.yaml").read_text(encoding="utf-8")
        (self.root / "parity" / "scenarios" / f"{name}.yaml").write_text(f"since: '{since}'\n{text}")

    def parity(self, verb: str, *words: str) -> int:
        return main([verb, *words, "--subject", str(self.file)])

    def check(self) -> int:
        return self.parity("check")

    def prune(self) -> int:
        """By the latest run."""
        source = str(self.root / "run.jsonl")
        return main(["record", "prune", "--from", source, "--subject", str(self.file)])

    def written(self) -> list[str]:
        """The ids of the records."""
        found = self.records.rglob("*.md")
        return sorted(path.relative_to(self.records).as_posix().removesuffix(".md") for path in found)

    def lines(self) -> dict[str, dict[str, Any]]:
        """What the latest run says of each scenario."""
        rows = (self.root / "run.jsonl").read_bytes().splitlines()
        found = [msgspec.json.decode(row) for row in rows]
        return {row["id"]: row for row in found if row["line"] == "scenario"}


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Newcomer:
    made = settled(tmp_path)
    shutil.copytree(CODE_ROOT / "oracle" / "pins", made.root / "oracle" / "pins")
    monkeypatch.setattr("parity.root.project_root", lambda: made.root)
    monkeypatch.setattr(session, "measure_oracle", lambda *_: MEASURED)
    monkeypatch.setattr(players, "start_oracle", lambda *_: Upstream())
    return made


@pytest.fixture
def beside_upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Newcomer:
    """The newcomer with upstream itself."""
    made = settled(tmp_path)
    (made.root / "oracle").symlink_to(CODE_ROOT / "oracle")
    monkeypatch.setattr("parity.root.project_root", lambda: made.root)
    return made


def settled(tmp_path: Path) -> Newcomer:
    root, folder = tmp_path / "clone", tmp_path / "theirs"
    for name in SUITE:
        place = root / "parity" / "scenarios" / f"{name}.yaml"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CODE_ROOT / "parity" / "scenarios" / f"{name}.yaml", place)
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("adopt_subject.py"), folder / "subject.py")
    made = Newcomer(root.resolve(), folder.resolve())
    made.file.write_text(FILE.replace("CODE", str(CODE_ROOT)), encoding="utf-8")
    made.plant()
    return made
