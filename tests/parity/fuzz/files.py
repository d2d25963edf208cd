"""Files that the verbs of a hunt take, and the verbs' engine with a fault planted: fixtures of their tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity.cli import main as command
from parity.fuzz.found import Found, found_text
from parity.fuzz.text import dump, laid
from parity.root import CODE_ROOT
from tests.parity.fuzz import planted

STUCK = {
    "level": "schedule",
    "config": {"model": "tiny-opt", "num_blocks": 4},
    "requests": [{"id": "r0", "prompt": 8, "max_tokens": 56}],
}


def run(*arguments: str) -> int:
    return command.main(list(arguments))


@pytest.fixture
def faulty(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The verbs play an engine whose free order is wrong, and this file is a timeline that shows it."""
    planted.use(monkeypatch, planted.free_order)
    path = here / "drawn.yaml"
    path.write_text(dump(laid(planted.timeline(0) | {"title": "Drawn"})))
    return path


@pytest.fixture(scope="module")
def shrunk_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `parity shrink` makes of that timeline."""
    folder = tmp_path_factory.mktemp("shrunk")
    (folder / "drawn.yaml").write_text(dump(laid(planted.timeline(0) | {"title": "Drawn"})))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(CODE_ROOT)
        planted.use(patch, planted.free_order)
        assert run("shrink", str(folder / "drawn.yaml"), "--out", str(folder / "small.yaml")) == 0
    return (folder / "small.yaml").read_text()


@pytest.fixture
def small(faulty: Path, shrunk_text: str) -> Path:
    """A found file, shrunk."""
    path = faulty.with_name("small.yaml")
    path.write_text(shrunk_text)
    return path


@pytest.fixture
def clone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The verbs write into a copy of the suite."""
    monkeypatch.setattr("parity.root.project_root", lambda: checkout)
    return checkout


def stuck(path: Path, **changes: Any) -> Path:
    """A found file of a wedge that a record covers."""
    values: dict[str, Any] = {"fingerprint": "f1:2add85e2ca52c437", "shape": "x", "attribution": "mirrored"}
    values |= {"property": "terminates", "at": "end", "oracle": 1, "subject": 1, "pin": "0.27.1"}
    path.write_text(found_text(Found(**(values | {"scenario": STUCK} | changes))))
    return path
