"""Stdout and stderr that cannot be written, for every verb as for one: they decide no exit code, and nothing lands in the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parity.root import CODE_ROOT

RESULT = ["record", "list"]  # exit 0
FAULT = ["record", "show", "nosuch"]  # exit 64, one line on stderr
WRONG = ["fuzz", "stray"]  # exit 64, told by the parser
HELP = ["fuzz", "--help"]


def ended(words: list[str], redirection: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command under a shell's redirection."""
    return subprocess.run(
        ["bash", "-c", f'exec "$@" {redirection}', "bash", sys.executable, "-m", "parity", *words],
        cwd=CODE_ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", [RESULT, HELP])
def test_a_stdout_that_is_closed_is_no_fault(words: list[str]) -> None:
    done = ended(words, ">&-")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [RESULT, HELP])
def test_a_reader_that_has_left_is_no_fault(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "parity", *words],
            cwd=CODE_ROOT,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [RESULT, HELP])
def test_results_that_the_disk_refuses_conclude_nothing(words: list[str]) -> None:
    done = ended(words, ">/dev/full")

    assert done.returncode == 2
    assert done.stderr == "parity: the output cannot be written: No space left on device — free some space\n"


@pytest.mark.parametrize("words", [FAULT, WRONG])
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_a_stderr_that_cannot_be_written_changes_neither_the_exit_code_nor_stdout(
    words: list[str], redirection: str
) -> None:
    done = ended(words, redirection)

    assert (done.returncode, done.stdout) == (64, "")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>&- <&-"])
def test_results_are_the_same_without_a_stderr(redirection: str) -> None:
    assert ended(RESULT, redirection).stdout == ended(RESULT, "").stdout


def test_what_an_encoding_lacks_is_escaped() -> None:
    done = ended(WRONG, "", PYTHONIOENCODING="ascii")

    assert done.returncode == 64
    assert done.stderr == "parity fuzz: unrecognized arguments: stray \\u2014 see 'parity fuzz --help'\n"


def test_a_file_does_not_get_the_descriptor_of_a_stream_that_is_closed(tmp_path: Path) -> None:
    """Whatever is printed would go into it."""
    script = (
        "import os, sys\nfrom parity.cli.output import make_steady\nmake_steady()\n"
        f"file = open({str(tmp_path / 'file')!r}, 'w')\n"
        "print('a result')\nprint('a remark', file=sys.stderr)\nos.write(1, b'from below')\n"
        "file.write(str(file.fileno()))\n"
    )

    done = subprocess.run(
        ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", sys.executable, "-c", script],
        cwd=CODE_ROOT,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0
    assert int((tmp_path / "file").read_text()) > 2
