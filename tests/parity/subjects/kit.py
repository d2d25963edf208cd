"""Subjects' files and lenses, as the tests of the package write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parity.subjects.lens import Lens, lens_over
from parity.subjects.subject import Loaded, load_subject

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


def written(folder: Path, text: str) -> Loaded:
    path = folder / "mine.toml"
    path.write_text(text)
    return load_subject(path)


def lens(level: Any, *hidden: str, profile: str = "exact") -> Lens:
    """A lens that hides just these."""
    return lens_over({}, profile, level).__class__(level, profile, frozenset(hidden))
