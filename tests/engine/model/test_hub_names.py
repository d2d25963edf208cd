"""A hub's name without a hub: one sentence that says what to do; from the cache it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.model

SCRIPT = """
import sys
from engine.errors import ModelError
from engine.model_folder import resolve_folder
try:
    print(resolve_folder(sys.argv[1]))
except ModelError as error:
    print("refused:", error)
"""


def resolve(name: str, cache: Path, **environment: str) -> str:
    """What a fresh process says, because the hub's client reads its environment once."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name],
        cwd=Path(__file__).resolve().parents[3],
        env={"PATH": "/usr/bin:/bin", "HF_HUB_CACHE": str(cache), "HOME": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "environment",
    [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}],
    ids=["offline", "unreachable"],
)
def test_a_name_that_cannot_be_fetched(tmp_path: Path, environment: dict[str, str]) -> None:
    said = resolve("facebook/opt-125m", tmp_path, **environment)

    assert said.startswith("refused: facebook/opt-125m is neither a folder nor downloaded")
    assert "make model" in said
    assert "\n" not in said


def test_a_name_that_was_downloaded_before(tmp_path: Path) -> None:
    repository = tmp_path / "models--someone--small"
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").touch()

    assert resolve("someone/small", tmp_path, HF_HUB_OFFLINE="1") == str(snapshot)
