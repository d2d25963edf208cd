"""The door `scheduler-cls` on real upstream: an unchanged subclass is upstream to the block, and a changed line is ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.pins import load_pin
from parity.ask import Ask
from parity.errors import OracleError
from parity.finding import Finding, Outcome, Verdict
from parity.oracle_side import Way, start_oracle
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.session import run

EXAMPLE = CODE_ROOT / "examples" / "changed-scheduler.toml"
ALONE = "preemption/sole-request-outgrows-pool"
BEHIND = "preemption/outgrows-pool-with-one-behind"
UNCHANGED = """
from vllm.v1.core.sched.scheduler import Scheduler

print("imported")

class Talkative(Scheduler):
    def __init__(self, *args, **kwargs):
        print("made", flush=True)
        super().__init__(*args, **kwargs)

    def schedule(self, *args, **kwargs):
        print('{"seq": 2, "stopped": true}', flush=True)
        return super().schedule(*args, **kwargs)
"""
SUBJECT = """
name = "unchanged"
mirrors = "vllm"
levels = ["plan", "schedule"]
capabilities = "all"
records = "records"
suite = "0.1"
[door.scheduler-cls]
class = "talkative.Talkative"
"""


def played(subject: Path, *ids: str, out: Path) -> Outcome:
    ask = Ask(CODE_ROOT, ids=ids, subject=str(subject), out=out / "run.jsonl")
    return run(ask, RunProgress()).outcome


def differences(outcome: Outcome) -> dict[str, list[Finding]]:
    """By scenario the findings that are not of both sides; those of both are for records."""
    found = {
        result.id: [item.finding for item in result.decided if item.finding.attribution != "mirrored"]
        for result in outcome.scenarios
    }
    return {scenario: findings for scenario, findings in found.items() if findings}


@pytest.mark.oracle
def test_a_changed_line_is_found_where_it_shows_and_is_ours(tmp_path: Path) -> None:
    outcome = played(EXAMPLE, ALONE, BEHIND, out=tmp_path)

    ((scenario, (finding,)),) = differences(outcome).items()
    assert (scenario, finding.attribution, finding.property) == (BEHIND, "ours", None)
    assert finding.at.endswith(".waiting[0]")
    assert (finding.oracle, finding.subject) == ("r0", "r1")  # r0 is preempted while r1 waits


@pytest.mark.oracle
def test_an_unchanged_subclass_is_upstream_in_everything_whatever_it_prints(tmp_path: Path) -> None:
    (tmp_path / "talkative.py").write_text(UNCHANGED)
    subject = tmp_path / "unchanged.toml"
    subject.write_text(SUBJECT)

    outcome = played(subject, "auto-fit", "caching", "chunking", "preemption", out=tmp_path)

    assert len(outcome.scenarios) > 300
    assert differences(outcome) == {}
    assert {result.verdict for result in outcome.scenarios} == {Verdict.MATCH, Verdict.NEW}
    assert outcome.not_compared == ()
    assert {result.unobserved for result in outcome.scenarios} == {0}


@pytest.mark.oracle
def test_a_class_that_does_not_start_is_named_with_its_own_next_step(tmp_path: Path) -> None:
    way = Way(scheduler="pkg.Class", path=(str(tmp_path / "gone"),))
    side = start_oracle(CODE_ROOT, load_pin(CODE_ROOT), way=way)

    with pytest.raises(
        OracleError, match=r"pkg\.Class did not start: .* there is no folder .*gone"
    ) as caught:
        side.hello()

    assert caught.value.hint is not None
    assert "door.scheduler-cls" in caught.value.hint
