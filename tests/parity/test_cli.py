"""The command line as such: light to start, help everywhere, and never the code of another checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from parity.cli import main as command
from parity.cli import parser
from parity.errors import UsageError
from parity.root import CODE_ROOT, project_root

HEAVY = ("torch", "transformers", "vllm", "rich", "yaml", "httpx", "msgspec")
VERBS = (
    "run",
    "check",
    "show",
    "smoke",
    "adopt",
    "next",
    "fuzz",
    "shrink",
    "promote",
    "replay",
    "coverage",
    "fidelity",
    "record",
    "oracle",
    "schema",
)


def test_help_loads_nothing_heavy() -> None:
    """`parity --help` answers at once because of what it does not import."""
    code = (
        "import sys\nfrom parity.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CODE_ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"


def test_the_engine_plays_without_torch() -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\n"
        "from parity.engine_side import EngineSide\nfrom parity.suite import load_suite, select\n"
        "from parity.root import CODE_ROOT\n"
        "side = EngineSide()\ncase = select(load_suite(CODE_ROOT), ['preemption/sole-request-outgrows-pool'])[0]\n"
        "side.begin(case.scenario)\nprint(side.finish().observation.end)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CODE_ROOT, capture_output=True, text=True, check=True
    )

    assert "kind='stall'" in done.stdout
    assert "outputs=[('r0', 41)]" in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main([verb, "--help"])

    assert stop.value.code == 0
    assert f"parity {verb}" in capsys.readouterr().out.split("example:")[1]


def test_every_verb_of_the_program_is_tested_here() -> None:
    assert parser.VERBS == VERBS


def test_a_fault_of_our_own_is_70_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("parity.root.project_root", broken)

    code = command.main(["check"])

    assert code == 70
    assert "fault of our own" in capsys.readouterr().err.splitlines()[-1]


def test_the_root_is_found_from_below() -> None:
    assert project_root(CODE_ROOT / "parity" / "scenarios") == CODE_ROOT


def test_another_checkout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "oracle" / "pins").mkdir(parents=True)

    with pytest.raises(UsageError, match="not that of the checkout"):
        project_root(tmp_path)


def test_outside_a_checkout_the_error_says_where_to_go(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="change into a clone"):
        project_root(tmp_path)
