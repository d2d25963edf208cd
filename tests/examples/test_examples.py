"""The worked examples of docs/plug-in.md, run as it says, print what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "plug-in.md").read_text(encoding="utf-8")
PUBLISHED = ROOT / ".examples" / "published"

pytestmark = pytest.mark.oracle


def parity(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "parity", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def promised(command: str) -> str:
    """The count that the document prints under a command."""
    found = re.search(rf"\$ {re.escape(command)}\n(?:.*\n)*?(\d+ examined: .*)\n", DOCUMENT)
    assert found is not None, command
    return found[1]


@pytest.mark.parametrize("name", ["toy-allocator", "changed-scheduler", "published-engine"])
def test_a_check_of_an_example_gives_what_the_document_prints(name: str, tmp_path: Path) -> None:
    """The number of plays is the check's own: a process that disagrees with itself would be FLAKY."""
    if name == "published-engine":
        assert PUBLISHED.is_dir(), "`make setup-examples` installs it"
    arguments = ("check", "--quick", "--subject", f"examples/{name}.toml")

    done = parity(*arguments, "--out", str(tmp_path / "run.jsonl"))

    assert promised(f"parity {' '.join(arguments)}") in done.stdout.splitlines(), done.stdout + done.stderr
    assert done.returncode == 0
    assert f"  examples/{name.replace('-', '_')}/records/" in done.stdout
    assert "unsupported, not played" in done.stdout or name == "changed-scheduler"


@pytest.mark.parametrize("name", ["toy-allocator", "changed-scheduler", "published-engine"])
def test_its_adapter_is_sound_and_its_records_are_in_order(name: str) -> None:
    smoke = parity("smoke", f"examples/{name}.toml")
    lint = parity("record", "lint", "--subject", f"examples/{name}.toml")

    assert smoke.returncode == 0, smoke.stdout + smoke.stderr
    assert "the adapter is sound; the engine differs from upstream in" in smoke.stdout
    assert lint.returncode == 0, lint.stdout
    assert re.fullmatch(r"\d+ records, 0 problems\n", lint.stderr)


def test_one_more_divergence_in_the_toy_turns_its_check_red(tmp_path: Path) -> None:
    """The toy with a block more than it should have, under the committed baseline."""
    source = (ROOT / "examples" / "toy_allocator" / "toy.py").read_text(encoding="utf-8")
    broken = source.replace("deque(range(1, self.num_blocks))", "deque(range(0, self.num_blocks))")
    assert broken != source
    (tmp_path / "toy.py").write_text(broken, encoding="utf-8")
    text = (ROOT / "examples" / "toy-allocator.toml").read_text(encoding="utf-8")
    text = text.replace("toy_allocator/toy.py", "toy.py")
    text = text.replace("toy_allocator/records", str(ROOT / "examples" / "toy_allocator" / "records"))
    (tmp_path / "broken.toml").write_text(text, encoding="utf-8")

    done = parity(
        "run", "block-count", "--subject", str(tmp_path / "broken.toml"), "--out", str(tmp_path / "r")
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "usable_blocks  oracle 3, subject 4" in done.stdout
