"""What is done to one mutant in a child: the check is replayed, or the tests run, with it in force."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from parity.detection.mutation import Mutant
from parity.detection.planted import plant, purge, variables
from parity.detection.plugin import FirstFailure
from parity.detection.replay import Check, Engine, Seen
from parity.engine_side import EngineSide

OWN = ("engine", "oracle", "parity", "tests")
WARM = (
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)  # hypothesis is imported already, which is the point
ENGINE = ("engine", "parity.engine_side")
UNLOADABLE = "a module that cannot be loaded"


Plays = Mapping[str, Any]  # of each scenario, as `replay` has them


def by_check(check: Check, oracle: Plays, mutants: Sequence[Mutant]) -> Callable[[], Any]:
    """Work: play the suite on the engine with these in it. Its answer is the values of `replay.Seen`."""

    def work() -> list[Any]:
        engine = planted_engine(mutants)
        return [None, UNLOADABLE, "crash"] if engine is None else _values(check.whole(oracle, engine))

    return work


def by_judge(
    root: Path, mutants: Sequence[Mutant], observations: Mapping[str, Any], subject: Mapping[str, Any]
) -> Callable[[], Any]:
    """Work: both sides' observations are given, and judged by a harness with these in it. The answer as above."""

    def work() -> list[Any]:
        purge(OWN)
        plant(mutants)
        try:
            replay = importlib.import_module("parity.detection.replay")
        except Exception:  # noqa: BLE001 - a module that cannot be loaded is noticed by everybody
            return [None, UNLOADABLE, "crash"]
        return _values(replay.check_given(root, observations, subject))

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


def planted_engine(mutants: Sequence[Mutant]) -> Engine | None:
    side = planted_side(mutants)
    return None if side is None else Engine(side)


def planted_side(mutants: Sequence[Mutant]) -> type[EngineSide] | None:
    """The engine's side over an engine that is imported anew, these in it; None where it cannot be loaded."""
    purge(ENGINE)
    plant(mutants)
    try:
        side: type[EngineSide] = importlib.import_module("parity.engine_side").EngineSide
    except Exception:  # noqa: BLE001 - a module that cannot be loaded is noticed by everybody
        return None
    return side


def _values(seen: Seen) -> list[Any]:
    return [seen.exit_code, seen.where, seen.verdict]
