"""Whole runs of a subject that is not our engine as it stands: what is compared, shown, counted, and what is never told."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.block_pool import BlockPool
from parity import session
from parity.ask import Ask
from parity.cli.main import main
from parity.errors import InconclusiveError, UsageError
from parity.finding import Outcome, Verdict
from parity.observation import plain
from parity.report.progress import RunProgress
from parity.runlog import RunFile, observations, read_run
from parity.session import Run, play_one, run
from parity.subjects.fields import FIELDS
from parity.suite import load_suite, select
from tests.parity.stand_in import of
from tests.parity.subjects.kit import ENGINE, changed, lens
from tests.parity.test_session import plant

pytestmark = pytest.mark.usefixtures("stand_in")
PLAN = "auto-fit/multiple-of-block/short-opt-16-12"
REFUSED = "block-count/batching-limits/8-16-64"
WEDGE = "preemption/sole-request-outgrows-pool"


def subject(root: Path, text: str, name: str = "mine") -> str:
    path = root / f"{name}.toml"
    path.write_text(text.replace('"mine"', f'"{name}"'))
    return str(path)


def played(root: Path, text: str, *ids: str, **asked: Any) -> Run:
    ask = Ask(root, ids=ids, depth="quick", subject=subject(root, text), out=root / "run.jsonl", **asked)
    return run(ask, RunProgress())


def seen_but(level: str, *names: str) -> str:
    shown = [name for name in FIELDS[level] if name not in names]  # type: ignore[index]
    return f"observes = {{{level} = {json.dumps(shown)}}}\n{ENGINE}"


def in_file(done: Run) -> RunFile:
    return read_run(done.path)


def attributions(outcome: Outcome) -> list[tuple[str, str]]:
    return [(item.finding.attribution, item.finding.at) for one in outcome.scenarios for item in one.decided]


def test_a_fault_in_what_is_not_seen_is_no_finding_and_is_counted(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, under_reserve=False)
    text = seen_but("plan", "kv_cache_size_tokens", "warnings")

    whole = played(checkout, ENGINE, PLAN)
    (checkout / "run.jsonl").unlink()
    partial = played(checkout, text, PLAN)

    assert attributions(whole.outcome) == [("ours", "kv_cache_size_tokens")]
    assert whole.outcome.scenarios[0].unobserved == 0
    assert (partial.outcome.verdict, partial.outcome.exit_code) == (Verdict.MATCH, 0)
    assert partial.outcome.scenarios[0].unobserved == 2


def test_a_run_file_has_no_blanks_and_reads_back_as_it_was_compared(checkout: Path) -> None:
    hidden = ("steps.free", "steps.free_after", "steps.blocks", "end.period", "plan.concurrency_label")
    text = 'profile = "renamed"\n' + seen_but("schedule", *hidden)

    read = in_file(played(checkout, text, WEDGE))

    line = read.scenario(WEDGE)
    for side in ("oracle", "subject"):
        (raw,) = getattr(line, side).observations
        assert {"free", "free_after", "blocks"}.isdisjoint(raw["steps"][0])
        assert "scheduled" in raw["steps"][0]
        assert "period" not in raw["end"]
        assert "concurrency_label" not in raw["plan"]
        (seen,) = observations(read.header, line, side)  # type: ignore[arg-type]
        sight = read.header.lens("schedule")
        assert sight == lens("schedule", *hidden, profile="renamed")
        assert sight.observation(seen) == seen
        assert sight.shown(plain(seen)) == raw
        assert line.unobserved == sight.unobserved(seen) == 3 * len(raw["steps"]) + 2


def test_other_names_of_blocks_are_a_difference_unless_the_profile_leaves_them_open(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BlockPool.__init__

    def from_the_end(self: BlockPool, *given: Any) -> None:
        made(self, *given)
        self.free = OrderedDict.fromkeys(reversed(self.free))

    monkeypatch.setattr(BlockPool, "__init__", from_the_end)
    found = {}
    for profile in ("exact", "renamed", "counts", "aggregate"):
        outcome = played(checkout, f'profile = "{profile}"\n{ENGINE}', "caching", "chunking").outcome
        found[profile] = {one for one, _ in attributions(outcome)} - {"mirrored"}
        (checkout / "run.jsonl").unlink()

    assert found == {"exact": {"ours"}, "renamed": set(), "counts": set(), "aggregate": set()}


def test_a_mirrored_finding_is_one_in_every_profile(checkout: Path) -> None:
    """A timeline that does not end: the totals say so as well, in a shape of their own."""
    for profile in ("exact", "renamed", "counts", "aggregate"):
        done = played(checkout, f'profile = "{profile}"\n{ENGINE}', WEDGE)
        (checkout / "run.jsonl").unlink()
        broken = {item.finding.property for item in done.outcome.scenarios[0].decided}
        assert "terminates" in broken, profile
        assert {one for one, _ in attributions(done.outcome)} == {"mirrored"}


def test_too_little_sight_concludes_nothing_before_a_file_is_written(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("parity.root.project_root", lambda: checkout)
    file = subject(checkout, seen_but("schedule", "end.outputs"))

    code = main(["run", WEDGE, "--subject", file, "--out", str(checkout / "run.jsonl")])

    error = capsys.readouterr().err
    assert code == 2
    assert "subject mine does not show end.outputs at level schedule, the least to compare" in error
    assert not list(checkout.glob("run.jsonl*"))
    assert main(["run", PLAN, "--subject", file, "--out", str(checkout / "run.jsonl")]) == 0


def test_what_a_subject_cannot_is_not_played_and_stands_in_the_run_file(checkout: Path) -> None:
    text = changed(ENGINE, '"all"', '["memory-budget", "forced-tokens", "step-trace"]')

    done = played(checkout, text, "admission")

    ids = [case.id for case in select(load_suite(checkout), ["admission"])]
    read = in_file(done)
    assert sorted([line.id for line in read.scenarios] + [one.id for one in read.footer.not_compared]) == ids
    assert read.footer.not_compared == done.outcome.not_compared
    assert {one.why for one in done.outcome.not_compared} == {"unsupported"}
    assert done.outcome.exit_code == 0


def test_where_nothing_is_left_to_compare_the_reasons_are_told(checkout: Path) -> None:
    text = changed(ENGINE, '"all"', "[]")

    with pytest.raises(
        InconclusiveError, match=r"nothing was examined, of 1 scenario: unsupported: auto-fit"
    ):
        played(checkout, text, PLAN)

    assert not list(checkout.glob("run.jsonl*"))


@pytest.mark.parametrize(("suite", "ahead"), [("0.1", True), ("0.9", True), ("0.10", False), ("1.0", False)])
def test_a_newer_scenario_is_played_and_shown_and_decides_nothing_until_it_is_adopted(
    suite: str, ahead: bool, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The versions are compared as numbers: 0.10 is newer than 0.9."""
    plant(monkeypatch, under_reserve=False)
    file = checkout / "parity/scenarios/auto-fit/multiple-of-block.yaml"
    file.write_text(changed(file.read_text(), "level: plan\n", 'level: plan\nsince: "0.10"\n'))

    done = played(checkout, changed(ENGINE, '"0.1"', f'"{suite}"'), PLAN, REFUSED)

    assert of(done.outcome, PLAN) is Verdict.NEW
    assert {one.id: one.is_ahead for one in done.outcome.scenarios} == {PLAN: ahead, REFUSED: False}
    assert in_file(done).scenario(PLAN).is_ahead is ahead
    assert done.outcome.counts == ({"MATCH": 1} if ahead else {"MATCH": 1, "NEW": 1})
    assert done.outcome.exit_code == (0 if ahead else 1)


def test_a_run_of_nothing_but_newer_scenarios_concludes_nothing(checkout: Path) -> None:
    done = played(checkout, changed(ENGINE, '"0.1"', '"0.0"'), PLAN)

    assert (done.outcome.exit_code, done.outcome.counts) == (2, {})
    assert of(done.outcome, PLAN) is Verdict.MATCH


def test_whoever_promised_nothing_differs_and_is_not_at_fault(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, under_reserve=False)

    outcome = played(checkout, changed(ENGINE, 'mirrors = "vllm"\n', ""), PLAN).outcome

    assert attributions(outcome) == [("differs", "kv_cache_size_tokens")]


def test_only_what_is_compared_is_replayed(checkout: Path) -> None:
    asked: list[tuple[int, int]] = []

    class Counting(RunProgress):
        @contextmanager
        def playing(self, scenarios: int, replays: int) -> Iterator[None]:
            asked.append((scenarios, replays))
            with super().playing(scenarios, replays):
                yield

    plans = changed(ENGINE, '["plan", "schedule"]', '["plan"]')
    for number, text in enumerate((ENGINE, plans)):
        ask = Ask(checkout, depth="quick", subject=subject(checkout, text), out=checkout / f"{number}.jsonl")
        run(ask, Counting())

    (all_scenarios, all_replays), (scenarios, replays) = asked
    suite = [case for case in load_suite(checkout) if case.scenario.level == "plan" and not case.full]
    assert scenarios == len(suite) < all_scenarios
    diverging = {
        entry.scenario
        for record in session.held_by(Ask(checkout)).load_records(checkout)
        for entry in record.front.diverging
    }
    assert replays < all_replays
    assert replays <= len(diverging & {case.id for case in suite})


def test_between_two_subjects_no_record_is_read_and_what_either_hides_is_hidden(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the oracle was looked for")

    monkeypatch.setattr(session, "measure_oracle", refuse)
    other = subject(checkout, 'profile = "counts"\n' + seen_but("plan", "warnings"), "other")

    done = played(checkout, seen_but("plan", "concurrency_label"), PLAN, WEDGE, against=other)

    assert (done.pin, done.measured) == (None, None)
    assert done.outcome.records == ()
    read = in_file(done)
    assert read.header.against is not None
    assert (read.header.subject.name, read.header.against.name, read.header.records) == (
        "mine",
        "other",
        "none",
    )
    assert read.header.lens("plan") == lens("plan", "warnings", "concurrency_label", profile="counts")
    line = read.scenario(PLAN)
    assert line.oracle.observations[0].keys().isdisjoint({"warnings", "concurrency_label"})
    assert line.unobserved == 2
    assert observations(read.header, line, "oracle") == observations(read.header, line, "subject")
    assert {item.verdict for one in done.outcome.scenarios for item in one.decided} == {Verdict.NEW}


def test_a_difference_between_two_subjects_is_nobodys_fault(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = subject(checkout, seen_but("plan", "usable_blocks"), "other")
    made = BlockPool.__init__
    pools: list[BlockPool] = []

    def one_more_each_second_time(self: BlockPool, num_blocks: int, *given: Any) -> None:
        pools.append(self)
        made(self, num_blocks + len(pools) % 2, *given)

    monkeypatch.setattr(BlockPool, "__init__", one_more_each_second_time)
    done = played(checkout, ENGINE, "preemption/sole-request-fits", against=other)

    found = [item.finding for one in done.outcome.scenarios for item in one.decided]
    assert found, "the fault shows"
    assert {one.attribution for one in found} <= {"differs", "theirs", "ours"}
    assert all(one.property for one in found if one.attribution != "differs")


def test_two_subjects_of_one_name_are_a_mistake(checkout: Path) -> None:
    with pytest.raises(UsageError, match="both subjects are called mine"):
        played(checkout, ENGINE, PLAN, against=str(checkout / "mine.toml"))


def test_show_tells_nothing_that_was_not_seen(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, under_reserve=False)
    monkeypatch.setattr("parity.root.project_root", lambda: checkout)
    text = seen_but("plan", "kv_cache_size_tokens")
    done = played(checkout, text, PLAN)

    for words in (["--subject", str(checkout / "mine.toml")], ["--run", str(done.path)]):
        assert main(["show", PLAN, "--json", *words]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["first_difference"] is None
        assert "kv_cache_size_tokens" not in shown["oracle"]
        assert shown["oracle"] == shown["subject"]
        assert main(["show", PLAN, *words]) == 0
        table = capsys.readouterr().out
        assert "no difference" in table
        assert "kv_cache_size_tokens" not in table


def test_show_of_what_is_not_compared_says_why(checkout: Path) -> None:
    file = subject(checkout, changed(ENGINE, '"all"', "[]"))
    (of_control,) = select(load_suite(checkout), [PLAN])

    with pytest.raises(UsageError, match="multiple-of-block/short-opt-16-12 is unsupported: auto-fit"):
        play_one(Ask(checkout, subject=file), of_control, RunProgress())
