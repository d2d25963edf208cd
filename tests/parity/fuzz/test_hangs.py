"""A side that hangs or dies: what was not played is not counted, nothing untrue is kept, and the rest stays true."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.block_pool import BlockPool
from oracle.pins import load_pin
from parity.engine_side import EngineSide
from parity.fuzz.document import Document
from parity.fuzz.examine import Examiner, always
from parity.fuzz.known import Known
from parity.fuzz.tally import tally_of
from parity.fuzz.unit import Done, Find, Unit, verdict_of
from parity.fuzz.units import MOST_VOID, Bench, do
from parity.fuzz.worker import Post, Worker
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.scenario import Scenario
from parity.side import Play
from parity.subjects import players
from tests.parity.fuzz.files import STUCK, run, stuck
from tests.parity.fuzz.planted import Plant, Untouched, faulty, free_order, use
from tests.parity.stand_in import MEASURED

SECONDS = 0.3  # the deadline; what does not hang takes milliseconds
UNIT = Unit("schedule", 7, 0, 40)
KNOWS_ALL = Known({}, {})


def hangs_from(blocks: int) -> Plant:
    """The pool never hands out so many blocks at once."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        take = BlockPool.take

        def endless(self: BlockPool, count: int) -> list[int]:
            while count >= blocks:
                time.sleep(0.01)
            return take(self, count)

        patch.setattr(BlockPool, "take", endless)

    return plant


def both(*faults: Plant) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for fault in faults:
            fault(patch)

    return plant


def hasty(fault: Plant) -> type[EngineSide]:
    """The engine with this fault, and a short deadline."""

    class Hasty(faulty(fault)):  # type: ignore[misc]
        def __init__(self, policies: Mapping[str, str] | None = None) -> None:
            super().__init__(policies, SECONDS)

    return Hasty


def verbs_play(monkeypatch: pytest.MonkeyPatch, fault: Plant) -> None:
    use(monkeypatch, None)
    monkeypatch.setattr(players, "EngineSide", hasty(fault))


def sound(_patch: pytest.MonkeyPatch) -> None:
    """No fault at all."""


def examiner(fault: Plant) -> Examiner:
    return Examiner(always(Untouched(), hasty(fault)()), mirrors=True)


def hunted(fault: Plant) -> Done:
    return do(UNIT, Bench(examiner(fault), KNOWS_ALL))


def shown(fault: Plant, document: Document) -> set[str]:
    seen = examiner(fault).look(document)
    if seen.judged.failure is not None:
        return {"void:subject" if "the subject" in seen.judged.failure else "void:oracle"}
    return {finding.fingerprint for finding in seen.judged.findings}


def test_an_engine_that_hangs_everywhere_ends_the_unit_and_what_was_not_played_is_told() -> None:
    done = hunted(hangs_from(0))

    assert "void:subject" in {find.fingerprint for find in done.finds}
    assert {find.attribution for find in done.finds} <= {None, "mirrored"}
    assert MOST_VOID <= done.scenarios < UNIT.size
    assert done.unplayed == UNIT.size - done.scenarios
    assert tally_of([done]).unplayed == done.unplayed


def test_beside_a_hang_each_find_of_the_unit_shows_again() -> None:
    fault = both(hangs_from(12), free_order)

    done = hunted(fault)

    assert done.unplayed == 0
    assert {verdict_of(find) for find in done.finds} == {"VOID", "NEW"}
    assert any(find.attribution == "ours" for find in done.finds)
    for find in done.finds:
        assert find.fingerprint in shown(fault, find.document)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    workers: list[Worker] = []

    def start(fault: Plant) -> Worker:
        verbs_play(monkeypatch, fault)
        post = Post(CODE_ROOT, load_pin(CODE_ROOT, None), MEASURED, "schedule", {})
        workers.append(Worker(post, RunProgress.silent()))
        return workers[-1]

    yield start
    for one in workers:
        one.close()


def test_a_hang_is_shrunk_to_a_scenario_that_hangs(worker: Any) -> None:
    fault = hangs_from(3)
    find = next(find for find in hunted(fault).finds if find.fingerprint == "void:subject")

    reduced = worker(fault).shrink(find, 60, 3.0)

    assert reduced.attempts > 0
    assert shown(fault, reduced.find.document) == {"void:subject"}
    assert len(reduced.find.document["requests"]) < len(find.document["requests"])
    prompts = [request["prompt"] for request in reduced.find.document["requests"]]
    assert prompts != [1], "nothing that takes one block hangs"


class Mortal(Untouched):
    """An oracle whose process dies in the `dies_in`-th scenario, and which is not there any more for those after it."""

    started = 0

    def __init__(self, dies_in: int) -> None:
        super().__init__()
        type(self).started += 1
        self._left = dies_in

    def begin(self, scenario: Scenario) -> None:
        self._left -= 1
        super().begin(scenario)

    def finish(self) -> Play:
        play = super().finish()
        if self._left > 0:
            return play
        said = "the process ended" if self._left == 0 else "was not started a third time"
        return Play(None, said, 0.0)


def test_an_oracle_that_dies_ends_the_unit_and_is_another_for_the_next(
    worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = iter((5, 1000))
    monkeypatch.setattr(Mortal, "started", 0)
    monkeypatch.setattr("tests.parity.fuzz.planted.Untouched", lambda: Mortal(next(lives)))
    one = worker(sound)

    first = one.do(UNIT)
    find = next(find for find in first.finds if find.fingerprint == "void:oracle")
    second = one.do(UNIT)
    reduced = one.shrink(find, 60, 10.0)

    assert 0 < first.scenarios <= 5
    assert first.unplayed == UNIT.size - first.scenarios
    assert (second.scenarios, second.unplayed) == (UNIT.size, 0)
    assert Mortal.started == 2
    assert (reduced.attempts, reduced.stopped) == (0, "each try would cost a start of both sides")
    assert reduced.find == find


def test_a_find_of_a_side_that_disagrees_with_itself_is_kept_whole(worker: Any) -> None:
    find = Find("flaky:subject", "said", None, None, "", None, None, STUCK, 0, 0)

    reduced = worker(sound).shrink(find, 60, 10.0)

    assert reduced.find == find
    assert (reduced.attempts, reduced.stopped) == (
        0,
        "a side that disagrees with itself shows it in some plays only",
    )


def test_many_files_of_hangs_are_each_played_again(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs_play(monkeypatch, hangs_from(3))
    long = STUCK | {"requests": [{"id": "r0", "prompt": 40, "max_tokens": 1}]}
    hung = [stuck(here / f"{name}.yaml", fingerprint="void:subject", scenario=long) for name in "abc"]
    fixed = stuck(here / "d.yaml", fingerprint="void:subject")

    code = run("replay", *map(str, [*hung, fixed]))

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert [line.split()[0] for line in lines] == ["FAILED", "FAILED", "FAILED", "FIXED"]
    assert all("no end within" in line for line in lines[:3])


@pytest.mark.parametrize("fingerprint", ["void:oracle", "flaky:oracle", "flaky:subject"])
def test_what_cannot_be_shrunk_is_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fingerprint: str
) -> None:
    use(monkeypatch, None)
    path = stuck(here / "found.yaml", fingerprint=fingerprint, attribution=None)

    assert run("shrink", str(path)) == 64
    assert f"{fingerprint} of {path} is not shrunk: " in capsys.readouterr().err
