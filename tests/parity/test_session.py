"""Whole runs over the committed suite and records, with a stand-in for the oracle (tests/parity/stand_in.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import capacity
from engine.block_pool import BlockPool
from parity.ask import Ask
from parity.errors import Interrupted
from parity.finding import Verdict
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.runlog import read_run
from parity.session import run
from tests.parity.stand_in import check, of

pytestmark = pytest.mark.usefixtures("stand_in")


def test_the_whole_suite_is_match_and_covered(checkout: Path) -> None:
    outcome = check(checkout)

    assert set(outcome.counts) == {"MATCH", "COVERED"}
    assert outcome.exit_code == 0
    assert len(outcome.scenarios) >= 250


@pytest.mark.parametrize("record", sorted(CODE_ROOT.glob("records/*/*.md")), ids=lambda path: path.stem)
def test_without_any_one_record_the_run_is_red_and_new(checkout: Path, record: Path) -> None:
    (checkout / record.relative_to(CODE_ROOT)).unlink()

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
    assert {item.finding.attribution for item in new} == {"ours"}


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
        run(Ask(root=checkout, out=checkout / "out.jsonl"), Stopper())

    part = checkout / "out.jsonl.part"
    lines = [json.loads(line)["line"] for line in part.read_text().splitlines()]
    assert lines == ["header"] + ["scenario"] * 5
    assert not (checkout / "out.jsonl").exists()
