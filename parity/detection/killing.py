"""What is done to one mutant in a child: the check is replayed, or the tests run, with it in force."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from parity.detection.mutation import Mutant
from parity.detection.planted import plant, purge, variables
from parity.detection.plugin import FirstFailure

OWN = ("engine", "oracle", "parity", "tests")
WARM = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # hypothesis is imported already, which is the point
OUTSIDE = "a mutant that cannot be loaded"


def by_check(root: Path, mutants: Sequence[Mutant], observations: Mapping[str, Any]) -> Callable[[], Any]:
    """Work: replay the suite against the oracle's observations. Its answer is the values of `replay.Seen`."""

    def work() -> list[Any]:
        replay = _anew(mutants)
        if replay is None:
            return [None, OUTSIDE, "crash"]
        seen = replay.check(root, observations)
        return [seen.exit_code, seen.where, seen.verdict]

    return work


def by_oracle(
    root: Path, observations: Mapping[str, Any], subject: Mapping[str, Any]
) -> Callable[[], Any]:
    """Work: the same, with what a planted driver of the oracle's gave against the engine's own observations."""

    def work() -> list[Any]:
        from parity.detection import replay

        seen = replay.check_oracle(root, observations, subject)
        return [seen.exit_code, seen.where, seen.verdict]

    return work


def by_tests(root: Path, mutants: Sequence[Mutant], files: Sequence[str]) -> Callable[[], Any]:
    """Work: run the test files in their order up to the first failure. Its answer is pytest's exit code and that test."""

    def work() -> list[Any]:
        os.chdir(root)
        os.environ.update(variables(mutant.id for mutant in mutants))
        purge(OWN)
        plant(mutants)
        first = FirstFailure()
        with tempfile.TemporaryDirectory(prefix="mutant-") as scratch:
            options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={scratch}/tests", *WARM]
            code = pytest.main([*options, *files], plugins=[first])
        return [int(code), first.where]

    return work


def _anew(mutants: Sequence[Mutant]) -> Any:
    """`parity.detection.replay` with everything below it, the mutants in force; None where they cannot be loaded."""
    purge(OWN)
    plant(mutants)
    sys.dont_write_bytecode = True
    try:
        return importlib.import_module("parity.detection.replay")
    except Exception:  # noqa: BLE001 - a module that cannot be loaded is noticed by everybody
        return None
