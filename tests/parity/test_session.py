"""Whole runs over the committed suite and records, with a stand-in for the oracle (tests/parity/stand_in.py)."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from engine import capacity
from engine.block_pool import BlockPool
from parity import session
from parity.ask import Ask
from parity.errors import Interrupted, UsageError
from parity.finding import Plays, Verdict
from parity.play import play_case
from parity.records.parse import load_records
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.runlog import read_run
from parity.scenario import Case
from parity.session import run
from parity.suite import load_suite
from tests.parity.stand_in import check, of

pytestmark = pytest.mark.usefixtures("stand_in")


def test_the_whole_suite_is_match_and_covered(checkout: Path) -> None:
    outcome = check(checkout)

    assert set(outcome.counts) == {"MATCH", "COVERED"}
    assert outcome.exit_code == 0
    assert len(outcome.scenarios) >= 250


def shown_without_servers() -> list[str]:
    """The records of which some exemplar is played by a quick run."""
    quick = {case.id for case in load_suite(CODE_ROOT) if case.scenario.level != "serve"}
    return sorted(
        record.path
        for record in load_records(CODE_ROOT)
        if quick & {exemplar.scenario for exemplar in record.front.exemplars}
    )


@pytest.mark.parametrize("record", shown_without_servers())
def test_without_any_one_record_the_run_is_red_and_new(checkout: Path, record: str) -> None:
    (checkout / record).unlink()
    (checkout / record).with_suffix(".findings.yaml").unlink(missing_ok=True)

    outcome = check(checkout)

    assert outcome.exit_code == 1
    assert outcome.verdict is Verdict.NEW


def test_a_fault_in_the_eviction_order_is_new_and_ours(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = BlockPool.release
    monkeypatch.setattr(BlockPool, "release", lambda self, blocks: release(self, list(blocks)[::-1]))

    outcome = check(checkout)

    assert outcome.exit_code == 1
    new = [item for result in outcome.scenarios for item in result.decided if item.verdict is Verdict.NEW]
    assert "ours" in {item.finding.attribution for item in new}
    mirrored = [item.finding for item in new if item.finding.attribution == "mirrored"]
    assert all("/" in finding.shape for finding in mirrored), "a promise that each side breaks in its own way"


def test_a_change_behind_a_mirrored_finding_is_new(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, under_reserve=False)

    outcome = check(checkout, ids=("auto-fit/null-block",))

    assert of(outcome, "auto-fit/null-block") is Verdict.NEW
    new = [item.finding for item in outcome.scenarios[0].decided if item.verdict is Verdict.NEW]
    assert [(finding.attribution, finding.at) for finding in new] == [("ours", "kv_cache_size_tokens")]
    assert outcome.exit_code == 1


def test_a_second_fault_behind_a_recorded_difference_is_changed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, under_reserve=True)

    outcome = check(checkout)

    changed = {verdict.id: verdict.verdict for verdict in outcome.records}
    assert changed == {"auto-fit/null-block-counted": Verdict.CHANGED}
    assert outcome.exit_code == 1
    assert all(result.verdict.passes for result in outcome.scenarios), "the pin's own choice is untouched"


def test_under_a_policy_a_recorded_difference_is_covered_and_a_second_fault_changed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {
        "ids": ("preemption/sole-request-outgrows-pool",),
        "policies": {"null-block-capacity": "reserve"},
    }

    covered = check(checkout, **asked)
    plant(monkeypatch, under_reserve=True)
    changed = check(checkout, **asked)

    assert (covered.verdict, covered.exit_code) == (Verdict.COVERED, 0)
    assert (changed.verdict, changed.exit_code) == (Verdict.CHANGED, 1)


def plant(monkeypatch: pytest.MonkeyPatch, *, under_reserve: bool) -> None:
    """One token too many in the advertised size: always, or only under the policy `reserve`."""
    plan = capacity.plan

    def faulty(config: Any, policies: Any) -> Any:
        made = plan(config, policies)
        if isinstance(made, capacity.PlanOk) and policies.null_block_capacity.reserves is under_reserve:
            return msgspec.structs.replace(made, kv_cache_size_tokens=made.kv_cache_size_tokens + 1)
        return made

    monkeypatch.setattr(capacity, "plan", faulty)


def test_an_oracle_that_dies_in_a_scenario_makes_it_void(checkout: Path, stand_in: Any) -> None:
    stand_in(fails=frozenset({"auto-fit/null-block"}))

    outcome = check(checkout, family="auto-fit")

    assert of(outcome, "auto-fit/null-block") is Verdict.VOID
    assert outcome.exit_code == 2


def test_a_side_that_disagrees_with_itself_is_flaky(checkout: Path, stand_in: Any) -> None:
    stand_in(flaky=frozenset({"auto-fit/null-block"}))

    outcome = check(checkout, ids=("auto-fit/null-block",), repeat=2)

    assert outcome.verdict is Verdict.FLAKY
    assert outcome.exit_code == 1


def test_the_run_file_holds_both_observations_and_the_counts(checkout: Path) -> None:
    done = run(Ask(root=checkout, family="preemption"), RunProgress())

    read = read_run(done.path)

    assert read.header.partial
    assert read.header.pin is not None
    assert read.header.pin.measured == "0.27.1"
    assert read.footer.counts == done.outcome.counts
    line = read.scenario("preemption/sole-request-outgrows-pool")
    assert line.oracle.observations == line.subject.observations
    assert (checkout / "run.jsonl").resolve() == done.path


def test_an_interrupted_run_keeps_what_was_played_and_is_no_run(checkout: Path) -> None:
    played = []

    class Stopper(RunProgress):
        def played(self, result: Any = None) -> None:
            played.append(result)
            if len(played) == 5:
                raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"out\.jsonl\.part"):
        run(Ask(root=checkout, depth="quick", out=checkout / "out.jsonl"), Stopper())

    part = checkout / "out.jsonl.part"
    lines = [json.loads(line)["line"] for line in part.read_text().splitlines()]
    assert lines == ["header"] + ["scenario"] * 5
    assert not (checkout / "out.jsonl").exists()


@pytest.mark.parametrize("error", [UsageError("a mistake", hint="mend it"), ZeroDivisionError("ours")])
def test_whatever_ends_a_run_in_its_middle_says_where_the_rest_is(checkout: Path, error: Exception) -> None:
    class Breaker(RunProgress):
        def played(self, _result: Any = None) -> None:
            raise error

    with pytest.raises(type(error)) as caught:
        run(Ask(root=checkout, depth="quick", out=checkout / "out.jsonl"), Breaker())

    said = "".join(traceback.format_exception_only(caught.value))
    assert str(error) in said
    assert str(checkout / "out.jsonl.part") in said


def test_the_harness_has_what_the_slower_side_leaves_of_each_scenario(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two scenarios: 3 s and 1 s on the oracle, 1 s and 5 s on the subject, so that the sides took 8 s."""
    spent = iter([(3.0, 1.0), (1.0, 5.0)])
    clock = iter([100.0, 110.0])

    def played(case: Case, oracle: Any, subject: Any, times: int) -> tuple[Plays, Plays]:
        left, right = play_case(case, oracle, subject, times)
        ours = next(spent)
        return msgspec.structs.replace(left, seconds=ours[0]), msgspec.structs.replace(right, seconds=ours[1])

    monkeypatch.setattr(session, "play_case", played)
    monkeypatch.setattr(session, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    asked = Ask(root=checkout, ids=("auto-fit/null-block", "auto-fit/control"))

    seconds = run(asked, RunProgress()).seconds

    assert (seconds.oracle, seconds.subject, seconds.harness) == (4.0, 6.0, 2.0)
