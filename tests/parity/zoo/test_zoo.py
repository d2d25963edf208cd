"""Each subject of the zoo has one vice, and a run says which: the verdict, whose it is, and where it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.cli.main import main
from parity.errors import ExitCode, InconclusiveError
from parity.finding import Verdict
from parity.observation import Schedule, plain
from parity.root import CODE_ROOT
from parity.runlog import observations, read_run
from tests.parity.zoo.kit import GOLDEN, Played, findings, only, played, write_subject

__all__ = ["played"]

FITS = "preemption/sole-request-fits"
STUCK = "preemption/sole-request-outgrows-pool"
PREEMPTS = "preemption/two-in-one-step"
NULL_BLOCK = "auto-fit/null-block"
ALL = tuple(GOLDEN)


def test_the_honest_one_matches_in_every_golden_scenario(played: Played) -> None:
    outcome = played("honest", *ALL)

    assert len(outcome.scenarios) == len(ALL)
    decided = findings(outcome)
    assert {item.finding.attribution for item in decided} == {"mirrored"}, "upstream's own broken promises"
    assert all(result.verdict is Verdict.MATCH for result in outcome.scenarios if not result.decided)


def test_one_block_too_many_shows_in_the_plan(played: Played) -> None:
    outcome = played("one-block-too-many", FITS)

    (item,) = findings(outcome)
    assert (item.verdict, item.finding.attribution) == (Verdict.NEW, "ours")
    assert (item.finding.property, item.finding.at) == (None, "plan.usable_blocks")
    assert item.finding.subject == item.finding.oracle + 1
    assert outcome.exit_code == ExitCode.FINDINGS


def test_one_block_too_many_keeps_the_promise_that_upstream_breaks(played: Played) -> None:
    outcome = played("one-block-too-many", NULL_BLOCK)

    (item,) = findings(outcome)
    assert (item.verdict, item.finding.attribution) == (Verdict.NEW, "theirs")
    assert item.finding.property == "serves-advertised-length,label-within-usable"


def test_one_block_too_many_shows_in_the_pool_alone(played: Played) -> None:
    hidden = 'observes.schedule = ["steps.scheduled", "steps.free", "end.kind", "end.outputs"]'

    outcome = played("one-block-too-many", FITS, more=hidden)

    (item,) = findings(outcome)
    assert (item.finding.attribution, item.finding.at) == ("ours", "steps[0].free")
    assert item.finding.subject == item.finding.oracle + 1


def test_what_is_never_freed_is_a_leak_and_ours(played: Played) -> None:
    outcome = played("forgets-to-free", FITS)

    (item,) = findings(outcome)
    observed = GOLDEN[FITS].observation
    assert isinstance(observed, Schedule)
    assert (item.verdict, item.finding.attribution) == (Verdict.NEW, "ours")
    assert item.finding.property == "no-block-leak"
    assert item.finding.at == f"steps[{len(observed.steps) - 1}].free_after"


def test_the_oldest_preempted_is_ours_at_the_preemption(played: Played) -> None:
    outcome = played("preempts-the-oldest", PREEMPTS)

    (item,) = [item for item in findings(outcome) if item.finding.attribution != "mirrored"]
    observed = GOLDEN[PREEMPTS].observation
    assert isinstance(observed, Schedule)
    first = next(place for place, step in enumerate(observed.steps) if step.preempted)
    assert (item.verdict, item.finding.attribution) == (Verdict.NEW, "ours")
    assert item.finding.at.startswith(f"steps[{first}].")


def test_who_never_stalls_is_ours_behind_the_promise_that_both_break(played: Played) -> None:
    outcome = played("never-stalls", STUCK)

    decided = {item.finding.attribution: item.finding for item in findings(outcome)}
    observed = GOLDEN[STUCK].observation
    assert isinstance(observed, Schedule)
    assert decided.keys() == {"mirrored", "ours"}
    assert decided["mirrored"].property == "terminates"
    scenario = GOLDEN[STUCK].scenario
    assert scenario.timeline is not None
    assert decided["ours"].at == "steps"
    assert (decided["ours"].oracle, decided["ours"].subject) == (
        len(observed.steps),
        scenario.timeline.max_steps,
    )


@pytest.mark.parametrize(
    ("vice", "step", "says"),
    [
        ("hangs-at-step-3", 0.5, "no answer for 0.5 s"),
        (
            "dies-after-hello",
            20,
            "the process ended with status 7; its last words: RuntimeError: no such device",
        ),
        ("talks-then-quiet", 0.5, "no answer for 0.5 s; its last words: loading weights: 12 %"),
        ("wrong-seq", 20, "a line out of turn"),
        ("half-a-line-then-dies", 20, "the process ended with status 9 after half a line"),
        ("half-a-line-then-quiet", 0.5, "no answer for 0.5 s after half a line"),
        ("not-json", 20, "a line that is not JSON: b'Loading weights: 100%'"),
        ("step-before-run", 20, "which was answered"),
        ("lacks-a-field", 20, "required field `free` - at `$.steps[0]`"),
    ],
)
def test_what_cannot_be_trusted_is_void_and_says_why(
    vice: str, step: float, says: str, played: Played
) -> None:
    outcome = played(vice, FITS, step=step)

    result = only(outcome)
    assert result.verdict is Verdict.VOID
    assert result.detail is not None
    assert result.detail.startswith("the subject failed: zoo: ")
    assert says in result.detail
    assert not result.decided
    assert outcome.exit_code == ExitCode.INCONCLUSIVE


def test_the_steps_before_a_hang_are_counted_and_kept(played: Played, tmp_path: Path) -> None:
    assert str(only(played("hangs-at-step-3", FITS, step=0.5)).detail).endswith("(after 3 steps)")

    line = read_run(tmp_path / "run.jsonl").scenario(FITS)
    oracle = observations(read_run(tmp_path / "run.jsonl").header, line, "oracle")[0]
    assert isinstance(oracle, Schedule)
    assert line.subject.steps == plain(oracle)["steps"][:3]


def void_or_inconclusive(played: Played, vice: str, ids: tuple[str, ...]) -> str:
    """What a run says that it could not conclude: of a scenario, or of itself where none is left to say it of."""
    try:
        outcome = played(vice, *ids)
    except InconclusiveError as error:
        return error.message
    return " ".join(str(item.detail) for item in outcome.scenarios if item.verdict is Verdict.VOID)


@pytest.mark.parametrize("vice", ["answers-twice", "speaks-after-the-end", "dies-after-the-end"])
@pytest.mark.parametrize("ids", [(FITS,), (FITS, PREEMPTS), (FITS, PREEMPTS, STUCK)])
def test_what_comes_behind_the_last_end_is_never_passed_over(
    ids: tuple[str, ...], vice: str, played: Played
) -> None:
    said = void_or_inconclusive(played, vice, ids)

    assert any(
        text in said for text in ("nobody asked for", "which was answered", "not JSON: b'done!", "status 4")
    )


def test_another_answer_every_second_run_is_flaky(played: Played) -> None:
    outcome = played("another-every-second-run", NULL_BLOCK, repeat=2)

    result = only(outcome)
    assert result.verdict is Verdict.FLAKY
    assert "the subject disagrees with itself between plays 1 and 2, at num_blocks: 4 and 5" in str(
        result.detail
    )


def test_a_claim_that_hello_does_not_confirm_ends_the_run_before_it_begins(
    played: Played, tmp_path: Path
) -> None:
    with pytest.raises(InconclusiveError) as caught:
        played("denies", NULL_BLOCK)

    said = str(caught.value)
    assert "does not confirm capability prefix-caching, chunked-prefill" in said
    assert "that it shows at level plan warnings, bytes_per_block" in said
    assert "the adapter is at fault" in said
    assert "zoo.toml" in said
    assert "\n" not in said
    assert not list(tmp_path.glob("run.jsonl*"))


def test_a_capability_that_is_claimed_and_ignored_is_ours_where_it_shows(played: Played) -> None:
    ids = [item.id for item in GOLDEN.values() if item.needs[-1:] == ("aborts",)]

    outcome = played("ignores aborts", *ids)

    decided = [item.finding for item in findings(outcome) if item.finding.attribution != "mirrored"]
    assert {finding.attribution for finding in decided} == {"ours"}
    assert all(".aborted" in finding.at for finding in decided)


def test_a_scenario_has_as_long_as_the_subjects_file_says(played: Played) -> None:
    result = only(played("is-slow", STUCK, scenario=1))

    assert result.verdict is Verdict.VOID
    assert "the scenario took longer than 1 s" in str(result.detail)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("vice", "code", "says"),
    [("honest", ExitCode.OK, "1 MATCH"), ("one-block-too-many", ExitCode.FINDINGS, "plan.usable_blocks")],
)
def test_against_live_upstream(
    vice: str,
    code: ExitCode,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(CODE_ROOT)
    path = write_subject(tmp_path, vice)

    assert main(["run", FITS, "--subject", str(path), "--out", str(tmp_path / "run.jsonl")]) == code

    assert says in capsys.readouterr().out
