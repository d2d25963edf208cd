"""`parity adopt`: a baseline that makes a check green, hides nothing that comes after it, and is written whole or not at all."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from parity.cli.main import main
from parity.fingerprint import SYNTAX
from parity.records.parse import load_records
from parity.records.record import Record
from tests.parity.subjects.adopt_newcomer import Newcomer, beside_upstream, newcomer

__all__ = ["beside_upstream", "newcomer"]

MIRRORED = 3  # findings of the small suite: two promises that both sides break at auto-fit/null-block, one in preemption/


def records(of: Newcomer) -> tuple[Record, ...]:
    return load_records(of.root, of.records)


def test_a_check_is_red_before_and_green_after_and_every_finding_is_covered(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.plant(free="preemption/")
    before = newcomer.check()
    found = sum(len(line["findings"]) for line in newcomer.lines().values())

    adopted = newcomer.parity("adopt", "--owner", "@me")
    told = capsys.readouterr().out.splitlines()
    after = newcomer.check()

    assert (before, adopted, after) == (1, 0, 0)
    verdicts = {line["id"]: line["verdict"] for line in newcomer.lines().values()}
    assert {name for name, verdict in verdicts.items() if verdict == "COVERED"} == {
        name for name in verdicts if name.startswith("preemption/") or name == "auto-fit/null-block"
    }
    assert set(verdicts.values()) == {"COVERED", "MATCH"}
    assert told[-2].startswith(
        f"adopted {found} findings in {list(verdicts.values()).count('COVERED')} scenarios: "
    )
    assert told[-1] == f"next: parity check --subject {newcomer.file}"


@pytest.mark.oracle
def test_beside_upstream_itself_a_baseline_is_green_and_one_more_divergence_red(
    beside_upstream: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    beside_upstream.plant(free="preemption/")
    adopted = beside_upstream.parity("adopt")
    green = beside_upstream.check()
    verdicts = [line["verdict"] for line in beside_upstream.lines().values()]
    beside_upstream.plant(free="preemption/", plan="caching/")
    red = beside_upstream.check()

    assert (adopted, green, red) == (0, 0, 1)
    assert set(verdicts) == {"COVERED", "MATCH"}
    assert "NEW  f1:" in capsys.readouterr().out


def test_there_is_one_record_a_fingerprint_that_names_its_family_and_its_scenarios(
    newcomer: Newcomer,
) -> None:
    newcomer.plant(free="preemption/")
    newcomer.parity("adopt")

    shown: dict[str, list[str]] = {}
    for line in newcomer.lines().values():
        for item in line["findings"]:
            shown.setdefault(item["finding"]["fingerprint"], []).append(line["id"])
    written = {record.front.fingerprints[0]: record for record in records(newcomer)}

    assert set(written) == set(shown)
    for fingerprint, found in written.items():
        assert SYNTAX.fullmatch(fingerprint)
        digits = fingerprint.removeprefix("f1:")[:8]
        assert found.id == f"{min(shown[fingerprint]).partition('/')[0]}/undecided-{digits}"
        assert list(found.scenarios) == sorted(shown[fingerprint])
    assert max(len(names) for names in shown.values()) > 3  # so that findings stand beside a record


def test_a_record_of_the_baseline_says_who_until_when_and_for_which_suite(newcomer: Newcomer) -> None:
    newcomer.plant(plan="caching/")
    newcomer.parity("adopt", "--owner", "@me", "--expires", "2099-01-31")

    for written in records(newcomer):
        front = written.front
        assert (front.state, front.decision, front.owner) == ("accepted", "undecided", "@me")
        assert front.expires == datetime.date(2099, 1, 31)
        assert front.decided is not None
        assert (front.decided.by, front.decided.solo) == ("@me", True)
        assert front.scope["suite"] == "0.1"
        for entry in front.exemplars:
            assert (entry.oracle_digest is None) == (front.attribution == "mirrored")
        why = next(section.body for section in written.sections if section.title == "Why")
        assert f"{len(front.exemplars)} scenario" in why


def test_a_record_has_nothing_of_the_machine_that_it_was_written_on(newcomer: Newcomer) -> None:
    newcomer.plant(free="preemption/")
    newcomer.parity("adopt")

    texts = [path.read_text(encoding="utf-8") for path in newcomer.records.rglob("*") if path.is_file()]
    assert not any(str(newcomer.folder) in text for text in texts)
    assert sum("--subject newcomer.toml`" in text for text in texts) == len(newcomer.written())


def test_a_baseline_expires_in_ninety_days_unless_it_is_told_otherwise(newcomer: Newcomer) -> None:
    newcomer.parity("adopt")

    today = datetime.datetime.now(tz=datetime.UTC).date()
    assert {record.front.expires for record in records(newcomer)} == {today + datetime.timedelta(days=90)}


def test_the_lint_is_silent_on_a_baseline_of_any_profile(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.rewrite('suite = "0.1"', 'suite = "0.1"\nprofile = "counts"')
    newcomer.plant(free="preemption/", plan="caching/")
    newcomer.parity("adopt")
    capsys.readouterr()

    code = main(["record", "lint", "--subject", str(newcomer.file)])

    assert (code, capsys.readouterr().out) == (0, "")
    assert {record.front.profile for record in records(newcomer)} == {"counts"}
    assert newcomer.check() == 0


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"plan": "caching/"}, "NEW"),  # another scenario differs
        ({"last": "preemption/"}, "CHANGED"),  # the same ones differ behind the first difference
    ],
)
def test_one_more_divergence_turns_the_check_red(newcomer: Newcomer, more: Any, verdict: str) -> None:
    newcomer.plant(free="preemption/")
    newcomer.parity("adopt")
    newcomer.plant(free="preemption/", **more)

    code = newcomer.check()

    assert code == 1
    assert verdict in {line["verdict"] for line in newcomer.lines().values()}


def test_a_divergence_that_goes_away_is_stale(newcomer: Newcomer) -> None:
    newcomer.plant(free="preemption/")
    newcomer.parity("adopt")
    newcomer.plant()

    assert newcomer.check() == 1
    assert "STALE" in {line["verdict"] for line in newcomer.lines().values()}


def test_a_mirrored_finding_names_at_most_three_scenarios_and_covers_all(newcomer: Newcomer) -> None:
    for number in range(4):
        newcomer.add(f"auto-fit/again-{number}", "auto-fit/null-block", "0.1")

    newcomer.parity("adopt")

    record = next(item for item in records(newcomer) if item.id.startswith("auto-fit/"))
    assert record.front.attribution == "mirrored"
    assert len(record.scenarios) == 3
    assert "5 scenarios" in next(section.body for section in record.sections if section.title == "Why")
    assert newcomer.check() == 0


def test_what_is_flaky_is_named_and_never_adopted(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.plant(free="preemption/f", odd="preemption/twice")

    adopted = newcomer.parity("adopt")

    told = capsys.readouterr().out
    assert adopted == 1
    assert "  FLAKY  preemption/twice  " in told
    named = {name for record in records(newcomer) for name in record.scenarios}
    assert "preemption/fcfs-self-preemption" in named
    assert "preemption/twice" not in named
    assert newcomer.check() == 1


def test_where_a_scenario_says_nothing_there_is_no_baseline_until_it_does(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.plant(free="preemption/f", dies="preemption/twice")

    void = newcomer.parity("adopt")
    told = capsys.readouterr().out
    written = newcomer.written()
    newcomer.plant(free="preemption/")
    mended = newcomer.parity("adopt")

    assert void == 2
    assert "  VOID  preemption/twice  " in told
    assert told.startswith("nothing was adopted: mend what says nothing")
    assert written == []
    assert mended == 0
    assert "preemption/twice" in {name for record in records(newcomer) for name in record.scenarios}


def test_what_is_decided_is_left_alone(newcomer: Newcomer, capsys: pytest.CaptureFixture[str]) -> None:
    newcomer.parity("adopt")
    of_both = newcomer.written()
    texts = {path: path.read_bytes() for path in newcomer.records.rglob("*.md")}
    for path in texts:
        decided = path.read_text(encoding="utf-8").replace("decision: undecided", "decision: mirror")
        path.write_text(decided.replace(", suite: '0.1'", ""), encoding="utf-8")
        texts[path] = path.read_bytes()
    newcomer.plant(plan="caching/")
    capsys.readouterr()

    assert newcomer.parity("adopt") == 0

    told = capsys.readouterr().out
    assert f"left alone: {MIRRORED} findings that accepted records cover" in told
    assert len(newcomer.written()) == len(of_both) + 1
    assert {path: path.read_bytes() for path in texts} == texts
    assert newcomer.check() == 0


def test_a_second_baseline_is_refused_before_anything_is_played(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newcomer.parity("adopt")
    there = {path: path.read_bytes() for path in newcomer.records.rglob("*") if path.is_file()}
    newcomer.plant(plan="caching/")
    monkeypatch.setattr("parity.session.run", lambda *_: pytest.fail("it was played"))

    code = newcomer.parity("adopt")

    assert code == 64
    assert "there is a baseline of suite 0.1 with 3 undecided records" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in newcomer.records.rglob("*") if path.is_file()} == there


def test_newer_scenarios_turn_nothing_red_until_their_suite_is_taken_up(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parity.suite.VERSION", "0.2")
    newcomer.plant(free="preemption/", plan="caching/new")
    newcomer.parity("adopt")
    first = newcomer.written()
    newcomer.add("caching/new", "caching/evicted-by-larger", "0.2")
    newcomer.add("preemption/new", "preemption/twice", "0.2")

    ahead = newcomer.check()
    shown = newcomer.lines()
    capsys.readouterr()
    newer = newcomer.parity("adopt", "--suite", "0.2")
    told = capsys.readouterr().out
    newcomer.rewrite('suite = "0.1"', 'suite = "0.2"')
    raised = newcomer.check()

    assert (ahead, newer, raised) == (0, 0, 0)
    assert {shown[name]["is_ahead"] for name in ("caching/new", "preemption/new")} == {True}
    assert shown["caching/new"]["verdict"] == "NEW"
    assert 'to do: suite = "0.2" in ' in told
    added = [record for record in records(newcomer) if record.id not in first]
    assert {name for record in added for name in record.scenarios} == {"caching/new", "preemption/new"}
    assert {record.front.suite for record in added} == {"0.2"}
    assert not newcomer.lines()["caching/new"]["is_ahead"]


def test_what_is_new_in_an_old_suite_is_not_slipped_in_with_a_newer_one(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parity.suite.VERSION", "0.2")
    newcomer.parity("adopt")
    newcomer.plant(plan="caching/")
    newcomer.add("caching/new", "caching/evicted-by-larger", "0.2")
    capsys.readouterr()

    code = newcomer.parity("adopt", "--suite", "0.2")

    assert code == 1
    assert "NEW  caching/evicted-by-larger  came after the baseline of suite 0.1" in capsys.readouterr().out
    named = {name for record in records(newcomer) for name in record.scenarios}
    assert "caching/new" in named
    assert "caching/evicted-by-larger" not in named


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--owner", "me"], "--owner 'me' is no handle"),
        (["--expires", "2020-01-01"], "--expires 2020-01-01 is not to come"),
        (["--suite", "newest"], "--suite 'newest' is no version"),
        (["--suite", "0.0"], "--suite 0.0 is older than 0.1"),
        (["--suite", "99.0"], "there is no suite 99.0 yet"),
        (["--from", "absent.jsonl", "--pin", "vllm-0.27.1"], "so --pin has no part in it"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_played(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code = newcomer.parity("adopt", *words)

    told = capsys.readouterr().err.strip().splitlines()
    assert code == 64
    assert len(told) == 1
    assert said in told[0]
    assert newcomer.written() == []


def test_a_run_that_was_made_is_taken_in_the_place_of_playing(
    newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    newcomer.plant(free="preemption/")
    newcomer.check()
    monkeypatch.setattr("parity.session.run", lambda *_: pytest.fail("it was played"))

    code = newcomer.parity("adopt", "--from", str(newcomer.root / "run.jsonl"))

    monkeypatch.undo()
    assert code == 0
    assert len(newcomer.written()) > MIRRORED


def test_a_run_of_something_else_is_no_ground_for_a_baseline(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(newcomer.root / "run.jsonl")
    newcomer.parity("run", "preemption/twice")
    part = newcomer.parity("adopt", "--from", source)
    newcomer.check()
    newcomer.add("preemption/twice", "preemption/fcfs-self-preemption", "0.1")
    changed = newcomer.parity("adopt", "--from", source)
    newcomer.rewrite('suite = "0.1"', 'suite = "0.1" # another file')
    other = newcomer.parity("adopt", "--from", source)

    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("parity: ")]
    assert (part, changed, other) == (64, 64, 64)
    assert "played a part of the suite only" in told[0]
    assert "played preemption/twice as it was before it changed" in told[1]
    assert "held newcomer, and not as " in told[2]
    assert newcomer.written() == []


def test_the_object_for_scripts_has_the_counts_and_every_record(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.plant(odd="preemption/twice")

    newcomer.parity("adopt", "--json")

    shown = json.loads(capsys.readouterr().out)
    assert sorted(record["id"] for record in shown["records"]) == newcomer.written()
    assert shown["findings"] == sum(len(record["scenarios"]) for record in shown["records"]) == MIRRORED
    assert [(left["scenario"], left["verdict"]) for left in shown["left"]] == [("preemption/twice", "FLAKY")]
    assert shown["next"] == f"parity check --subject {newcomer.file}"


def test_an_interrupt_while_it_plays_leaves_no_record(
    newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("parity.session.play_case", interrupted)

    assert newcomer.parity("adopt") == 130
    assert newcomer.written() == []


def test_records_of_another_profile_decide_nothing_and_are_counted(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    newcomer.plant(free="preemption/")
    assert newcomer.parity("adopt") == 0
    assert newcomer.check() == 0
    records = len(newcomer.written())
    newcomer.rewrite('suite = "0.1"', 'suite = "0.1"\nprofile = "renamed"')
    capsys.readouterr()

    assert newcomer.check() == 1

    told = capsys.readouterr().out
    assert "COVERED" not in told
    assert f"{records} records of another profile than renamed decided nothing: `parity record lint`" in told


def test_a_request_to_end_that_came_while_both_sides_ended_leaves_no_record(
    newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    newcomer.plant(free="preemption/")
    monkeypatch.setattr("parity.interrupts.requested", lambda: True)

    assert newcomer.parity("adopt") == 130
    assert newcomer.written() == []
