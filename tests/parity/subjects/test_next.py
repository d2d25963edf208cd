"""`parity next`: which undecided group to decide first; `parity record decide` and `prune`, by which they become less."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from parity.cli.main import main
from parity.errors import UsageError
from parity.finding import Decided, Finding, Verdict
from parity.records.parse import load_records
from parity.records.prune import prune
from parity.records.record import Record
from parity.records.undecided import decided_text, open_groups
from parity.runlog import FORMAT, Footer, Header, Pin, RunFile, ScenarioLine, Seconds, SideLine
from tests.parity.held import ENGINE
from tests.parity.subjects.adopt_newcomer import Newcomer, newcomer
from tests.records.miniature import HASH, TODAY, exemplar, finding, print_of, record

__all__ = ["newcomer"]

FEW, MANY, BOTH = finding(1, "ours"), finding(2, "theirs"), finding(3)


def undecided(of: Finding, name: str, *scenarios: str, **changes: Any) -> Record:
    shown = [exemplar(of, scenario) for scenario in scenarios]
    return record(of, name, decision="undecided", exemplars=shown, **changes)


def line(scenario: str, *findings: tuple[Finding, Verdict, str | None]) -> ScenarioLine:
    side = SideLine([], None, 0.0)
    decided = tuple(Decided(item, name, verdict, None) for item, verdict, name in findings)
    return ScenarioLine(scenario, "plan", HASH, Verdict.NEW, None, side, side, decided)


def test_the_group_that_clears_most_comes_first_and_a_shared_scenario_clears_nothing() -> None:
    few = undecided(FEW, "auto-fit/few", "auto-fit/a", "auto-fit/b", "auto-fit/c")
    many = undecided(MANY, "auto-fit/many", "auto-fit/c", "auto-fit/d", "auto-fit/e", "auto-fit/f")

    groups = open_groups([few, many])

    assert [(group.record, group.scenarios, group.clears) for group in groups] == [
        ("auto-fit/many", 4, 3),
        ("auto-fit/few", 3, 2),
    ]


def test_what_is_decided_or_not_accepted_is_no_group() -> None:
    decided = record(FEW, "auto-fit/decided")
    proposed = undecided(MANY, "auto-fit/proposed", "auto-fit/a", state="proposed")

    assert open_groups([decided, proposed]) == []


def test_a_mirrored_record_counts_at_least_its_exemplars_and_exactly_what_a_run_shows() -> None:
    both = undecided(BOTH, "auto-fit/both", "auto-fit/a")
    shown = [line(f"auto-fit/{name}", (BOTH, Verdict.COVERED, both.id)) for name in "abcd"]

    (named,) = open_groups([both])
    (counted,) = open_groups([both], shown)

    assert (named.scenarios, named.at_least) == (1, True)
    assert (counted.scenarios, counted.at_least) == (4, False)


def test_what_is_new_in_a_run_is_a_group_with_the_number_of_its_finding() -> None:
    few = undecided(FEW, "auto-fit/few", "auto-fit/a")
    harness = finding(4, "harness")
    lines = [
        line("auto-fit/a", (FEW, Verdict.COVERED, few.id), (MANY, Verdict.NEW, None)),
        line("auto-fit/b", (MANY, Verdict.NEW, None), (harness, Verdict.NEW, None)),
        line("auto-fit/c", (MANY, Verdict.NEW, None)),
    ]

    groups = open_groups([few], lines)

    first = groups[0]
    assert (first.record, first.fingerprint, first.scenarios, first.clears) == (None, print_of(2), 3, 2)
    assert (first.example, first.finding) == ("auto-fit/a", 2)
    assert [group.record for group in groups] == [None, "auto-fit/few"]


def test_a_decision_about_a_difference_is_no_mirror_and_some_need_a_day() -> None:
    few = undecided(FEW, "auto-fit/few", "auto-fit/a")

    with pytest.raises(UsageError, match="is a difference"):
        decided_text(few, "mirror", None)
    with pytest.raises(UsageError, match="looked at again"):
        decided_text(few, "owed", None)
    with pytest.raises(UsageError, match="there is nothing to decide"):
        decided_text(record(FEW), "diverge", None)


def test_the_next_group_comes_with_the_commands_that_work_on_it(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.plant(free="preemption/", plan="caching/")
    newcomer.parity("adopt")
    capsys.readouterr()

    code = newcomer.parity("next")
    told = capsys.readouterr().out.splitlines()
    newcomer.parity("next", "--json")
    groups = json.loads(capsys.readouterr().out)["groups"]

    most = max(load_records(newcomer.root, newcomer.records), key=lambda item: len(item.scenarios))
    assert code == 0
    assert told[1].startswith(f"{most.id}  ")
    assert groups[0]["record"] == most.id
    assert groups[0]["clears"] == max(group["clears"] for group in groups)
    look, decide = groups[0]["look"].split(), groups[0]["decide"].split()
    assert main(look[1:]) == 0
    decide[decide.index("DECISION")] = "diverge"
    assert main(decide[1:]) == 0


def test_a_decided_group_is_left_when_it_is_written_accepted_and_counted_no_more(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.plant(plan="caching/")
    newcomer.parity("adopt", "--owner", "@me")
    (mine,) = [name for name in newcomer.written() if name.startswith("caching/")]
    here = ["--subject", str(newcomer.file)]
    path = newcomer.records / f"{mine}.md"

    decided = main(["record", "decide", mine, "owed", "--expires", "2099-01-01", *here])
    proposed = newcomer.check()
    early = main(["record", "accept", mine, "--by", "@other", *here])
    path.write_text(path.read_text(encoding="utf-8").replace("TO BE WRITTEN", "It is"), encoding="utf-8")
    accepted = main(["record", "accept", mine, "--by", "@other", *here])
    after = newcomer.check()
    capsys.readouterr()
    newcomer.parity("next")

    assert (decided, proposed, early, accepted, after) == (0, 1, 64, 0, 0)
    assert mine not in capsys.readouterr().out
    front = next(item.front for item in load_records(newcomer.root, newcomer.records) if item.id == mine)
    assert (front.decision, front.expires) == ("owed", datetime.date(2099, 1, 1))
    assert not front.title.startswith("Undecided")
    assert front.suite is None


def test_what_came_after_the_baseline_is_named_from_a_run(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.parity("adopt")
    newcomer.plant(free="preemption/")
    newcomer.check()
    source = str(newcomer.root / "run.jsonl")
    capsys.readouterr()

    code = newcomer.parity("next", "--from", source)

    told = capsys.readouterr().out.splitlines()
    assert code == 0
    assert told[0].startswith("3 undecided, ")
    assert told[1].startswith("NEW  f1:")
    command = next(row for row in told if "decide:" in row).partition("parity ")[2].replace("'", "")
    assert main(command.split()) == 0
    assert len(newcomer.written()) == 4


def test_when_nothing_is_left_it_says_so(newcomer: Newcomer, capsys: pytest.CaptureFixture[str]) -> None:
    code = newcomer.parity("next")

    assert (code, capsys.readouterr().out) == (0, "nothing is left to decide\n")


def test_a_run_of_another_subject_is_one_line(newcomer: Newcomer, capsys: pytest.CaptureFixture[str]) -> None:
    newcomer.check()
    newcomer.rewrite('name = "newcomer"', 'name = "other"')
    capsys.readouterr()

    code = newcomer.parity("next", "--from", str(newcomer.root / "run.jsonl"))

    assert code == 64
    assert "held newcomer, and not as " in capsys.readouterr().err


def test_a_mended_subject_prunes_its_baseline_and_is_green_again(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.plant(free="preemption/", plan="caching/")
    newcomer.parity("adopt")
    before = {item.id: item for item in load_records(newcomer.root, newcomer.records)}
    newcomer.plant(free=["preemption/e", "preemption/f"])
    stale = newcomer.check()
    capsys.readouterr()

    code = newcomer.prune()
    told = capsys.readouterr().out
    after = {item.id: item for item in load_records(newcomer.root, newcomer.records)}

    assert (stale, code, newcomer.check()) == (1, 0, 0)
    (caching,) = [name for name in before if name.startswith("caching/")]
    assert after[caching].front.state == "retired"
    assert f"{caching}  1 gone, retired\n" in told
    changed = [name for name in before if after[name].front.exemplars != before[name].front.exemplars]
    for name in changed:
        assert set(after[name].scenarios) < set(before[name].scenarios)
        assert after[name].is_undecided
    assert changed
    assert main(["record", "lint", "--subject", str(newcomer.file)]) == 0


def test_what_still_shows_is_not_pruned(newcomer: Newcomer, capsys: pytest.CaptureFixture[str]) -> None:
    newcomer.plant(free="preemption/")
    newcomer.parity("adopt")
    newcomer.check()
    there = {path: path.read_bytes() for path in newcomer.records.rglob("*") if path.is_file()}
    capsys.readouterr()

    code = newcomer.prune()

    assert (code, capsys.readouterr().out) == (0, "")
    assert {path: path.read_bytes() for path in newcomer.records.rglob("*") if path.is_file()} == there


def test_a_mirrored_record_whose_exemplars_are_mended_names_others() -> None:
    again = finding(3, shape="x")
    both = undecided(again, "auto-fit/both", "auto-fit/a", "auto-fit/b")
    gone = [line(name) for name in ("auto-fit/a", "auto-fit/b")]
    shown = [line(f"auto-fit/{name}", (again, Verdict.COVERED, both.id)) for name in "cdef"]

    (still,) = prune(run_of(*gone, *shown), [both], TODAY)
    (over,) = prune(run_of(*gone), [both], TODAY)

    assert [entry.scenario for entry in still.front.exemplars] == ["auto-fit/c", "auto-fit/d", "auto-fit/e"]
    assert (still.is_retired, over.is_retired) == (False, True)
    assert still.gone == ("auto-fit/a", "auto-fit/b")


def test_a_decided_record_is_never_pruned() -> None:
    decided = record(FEW, "auto-fit/decided")

    assert list(prune(run_of(line("auto-fit/null-block")), [decided], TODAY)) == []


def run_of(*lines: ScenarioLine) -> RunFile:
    pin = Pin("vllm-0.27.1", "0.27.1", "0.27.1")
    header = Header(FORMAT, pin, None, False, "here", "sha256:0", "v1", {}, False, ENGINE)
    footer = Footer(len(lines), {}, (), Verdict.NEW, 1, Seconds(0.0, 0.0, 0.0))
    return RunFile(header, lines, footer)
