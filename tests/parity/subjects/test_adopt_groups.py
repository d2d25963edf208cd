"""What of a run becomes a group of a baseline, and what is named in its place."""

from __future__ import annotations

import datetime
from typing import Any

from parity.finding import Decided, Finding, Seen, Verdict
from parity.records.record import Record
from parity.runlog import FORMAT, Footer, Header, Pin, RunFile, ScenarioLine, Seconds, SideLine
from parity.subjects.adopt import Adoption, Terms, adopt
from tests.parity.held import ENGINE
from tests.records.miniature import HASH, TODAY, case, finding, record

TERMS = Terms("@me", TODAY, TODAY + datetime.timedelta(days=1), "0.1")


def run_of(*lines: ScenarioLine) -> RunFile:
    pin = Pin("vllm-0.27.1", "0.27.1", "0.27.1")
    header = Header(FORMAT, pin, None, False, "here", "sha256:0", "v1", {}, False, ENGINE)
    return RunFile(header, lines, Footer(len(lines), {}, (), Verdict.NEW, 1, Seconds(0.0, 0.0, 0.0)))


def line(name: str, *findings: Finding, seen: Any = None) -> ScenarioLine:
    side = SideLine([seen], None, 0.0)
    decided = tuple(Decided(item, None, Verdict.NEW, None) for item in findings)
    return ScenarioLine(name, "plan", HASH, Verdict.NEW, None, side, side, decided)


def adopted(*lines: ScenarioLine, there: tuple[Record, ...] = ()) -> Adoption:
    return adopt(run_of(*lines), there, {item.id: case(item.id) for item in lines}, TERMS)


def test_an_id_that_is_taken_gets_a_number() -> None:
    first, second, third = (finding(number, "ours", shape="x") for number in (1, 2, 3))
    short = "auto-fit/undecided-00000000"  # the first digits of all three fingerprints
    retired = record(finding(9), short, state="retired")

    found = adopted(line("auto-fit/a", first, second), line("auto-fit/b", third), there=(retired,))

    assert [group.record.id for group in found.groups] == [f"{short}-2", f"{short}-3", f"{short}-4"]


def test_what_a_record_has_no_form_for_is_named_and_not_passed_over() -> None:
    at = "exchanges[{}].body.choices[0].logprobs.token_logprobs[0]"
    first, second = (
        finding(1, "differs", shape="x", at=at.format(number), oracle=-0.5, subject=-0.75)
        for number in (0, 1)
    )

    found = adopted(line("serving/a", first, second))

    assert [group.scenarios for group in found.groups] == [("serving/a",)]
    assert [(left.scenario, left.verdict) for left in found.left] == [("serving/a", Verdict.CHANGED)]
    assert found.exit_code == 1


def test_outcomes_with_log_probabilities_are_named_and_not_adopted() -> None:
    seen = {"sha256:1": Seen(1)}
    of = finding(1, "differs", shape="x", oracle_outcomes=seen, subject_outcomes=seen)

    found = adopted(line("serving/a", of, seen={"logprobs": {"token_logprobs": [-0.5]}}))

    assert found.groups == ()
    assert "has outcomes, and answers with log probabilities" in found.left[0].reason


def test_a_fault_of_the_harness_is_never_adopted_and_is_70() -> None:
    found = adopted(line("auto-fit/a", finding(1, "harness", shape="x"), finding(2, "ours", shape="x")))

    assert found.groups == ()
    assert found.exit_code == 70
    assert found.left[0].reason == "the comparison itself is at fault; no record can cover that"
