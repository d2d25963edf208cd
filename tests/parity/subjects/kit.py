"""Subjects' files and lenses, as the tests of the package write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parity.observation import Schedule
from parity.scenario import Case
from parity.subjects.lens import Lens
from parity.subjects.subject import Loaded, load_subject
from tests.parity.stand_in import untouched_plays

PROCESS = """
name = "mine"
levels = ["plan", "schedule"]
records = "records"
suite = "0.1"
[door.process]
command = ["mine"]
"""
SERVER = """
name = "mine"
levels = ["serve"]
capabilities = "all"
records = "records"
suite = "0.1"
[door.serve]
command = ["mine", "{model}", "{port}"]
ready = {path = "/health", seconds = 1}
flags = {num_blocks = "--blocks"}
"""
RUNNING = """
name = "mine"
levels = ["serve"]
capabilities = "all"
records = "records"
suite = "0.1"
[door.http]
url = "http://127.0.0.1:8123"
config = {model = "tiny-opt", num_blocks = 64}
"""
ENGINE = """
name = "mine"
mirrors = "vllm"
levels = ["plan", "schedule"]
capabilities = "all"
records = "records"
suite = "0.1"
[door]
inprocess = true
"""


def written(folder: Path, text: str) -> Loaded:
    path = folder / "mine.toml"
    path.write_text(text)
    return load_subject(path)


def changed(text: str, old: str, new: str) -> str:
    """The text with the one place that has `old` changed."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def lens(level: Any, *hidden: str, profile: str = "exact") -> Lens:
    """A lens that hides just these."""
    return Lens(level, profile, frozenset(hidden))


def timelines(suite: list[Case]) -> Iterator[tuple[Case, Schedule]]:
    """Every timeline of the suite, with what the engine does in it."""
    for case in suite:
        if case.scenario.level == "schedule":
            observation = untouched_plays()[case.id].observation
            assert isinstance(observation, Schedule)
            yield case, observation
