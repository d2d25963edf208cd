"""What a person reads: the terminal report, the side-by-side table, and what the next command is."""

from __future__ import annotations

from rich.console import Console

from parity.errors import ExitCode
from parity.finding import Decided, Finding, Outcome, RecordVerdict, ScenarioResult, Verdict
from parity.report.side_by_side import table
from parity.report.terminal import next_command, report


def found(verdict: Verdict, *, fingerprint: str = "f1:aaaa", hint: str | None = None) -> Decided:
    record = "auto-fit/null-block-counted" if verdict is Verdict.COVERED else None
    finding = Finding(fingerprint, "mirrored", "terminates", "end.kind", "stall", "stall", "o", "s")
    return Decided(finding, record, verdict, hint)


def result(name: str, verdict: Verdict, *decided: Decided, detail: str | None = None) -> ScenarioResult:
    return ScenarioResult(name, "schedule", "sha256:0", verdict, decided, detail)


def outcome(*results: ScenarioResult, records: tuple[RecordVerdict, ...] = ()) -> Outcome:
    verdicts = [one.verdict for one in results] + [record.verdict for record in records]
    counts = {verdict.value: verdicts.count(verdict) for verdict in Verdict if verdict in verdicts}
    return Outcome(tuple(results), records, counts, min(verdicts, key=lambda v: v.severity), ExitCode.OK)


def text(renderable: object, width: int = 160) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def test_scenarios_stand_under_their_fingerprint_the_worst_first_and_match_stays_silent() -> None:
    shown = text(
        report(
            "engine against vLLM 0.27.1",
            outcome(
                result("admission/a", Verdict.COVERED, found(Verdict.COVERED)),
                result("admission/b", Verdict.MATCH),
                result("preemption/c", Verdict.NEW, found(Verdict.NEW, fingerprint="f1:bbbb", hint="look")),
                result("preemption/d", Verdict.COVERED, found(Verdict.COVERED)),
            ),
            ["run file: run.jsonl"],
        )
    )

    assert shown == "\n".join(
        [
            "engine against vLLM 0.27.1",
            "",
            "NEW  f1:bbbb  mirrored  terminates",
            '  preemption/c  end.kind  both "stall"  (look)',
            "",
            "COVERED  f1:aaaa  mirrored  terminates  records/auto-fit/null-block-counted.md",
            '  admission/a  end.kind  both "stall"',
            '  preemption/d  end.kind  both "stall"',
            "",
            "4 examined: 1 NEW, 2 COVERED, 1 MATCH",
            "run file: run.jsonl",
        ]
    )


def test_a_scenario_that_concluded_nothing_says_why() -> None:
    void = result("admission/a", Verdict.VOID, detail="the oracle failed: no answer for 60 s")

    shown = text(report("head", outcome(void), []))

    assert "VOID  admission/a  the oracle failed: no answer for 60 s" in shown


def test_a_record_that_no_scenario_speaks_of_has_its_line() -> None:
    stray = RecordVerdict("auto-fit/gone", Verdict.ORPHAN, "names the scenario x, which does not exist")

    shown = text(report("head", outcome(result("a/b", Verdict.MATCH), records=(stray,)), []))

    assert "ORPHAN  auto-fit/gone  names the scenario x, which does not exist" in shown


def test_the_next_command_is_for_the_worst() -> None:
    new = result("a/new", Verdict.NEW, found(Verdict.NEW))
    known = result("a/known", Verdict.NEW, found(Verdict.NEW, hint="r is only proposed"))
    changed = result("a/changed", Verdict.CHANGED, found(Verdict.CHANGED))
    void = result("a/void", Verdict.VOID, detail="the oracle failed: it died")
    ours = result("a/ours", Verdict.VOID, detail="the subject failed: it died")
    stale = RecordVerdict("r/stale", Verdict.STALE, "no difference is left")

    assert next_command(outcome(result("a/b", Verdict.MATCH)), "run.jsonl") is None
    assert next_command(outcome(changed, new), "run.jsonl") == "parity record new --from 'run.jsonl#a/new'"
    assert next_command(outcome(known), "run.jsonl") == "parity show a/known --run run.jsonl"
    assert next_command(outcome(changed), "run.jsonl") == "parity show a/changed --run run.jsonl"
    assert next_command(outcome(new, void), "run.jsonl") == "parity oracle verify"
    assert next_command(outcome(new, ours), "run.jsonl") is None
    assert (
        next_command(outcome(result("a/b", Verdict.MATCH), records=(stale,)), "run.jsonl")
        == "parity record show r/stale"
    )


def test_both_sides_stand_beside_each_other_with_the_first_difference_marked() -> None:
    oracle = {"status": "ok", "num_blocks": 4, "max_model_len": 64, "concurrency": [4, 4]}
    subject = {"status": "ok", "num_blocks": 4, "max_model_len": 48, "concurrency": [4, 3]}

    rows = text(table(oracle, subject, "max_model_len")).splitlines()

    assert [row.split() for row in rows] == [
        ["at", "oracle", "subject"],
        ["status", "ok", "ok"],
        ["num_blocks", "4", "4"],
        ["max_model_len", "◀", "64", "48"],
        ["concurrency", "4", "4", "4", "3"],
    ]


def test_steps_that_only_one_side_played_stand_in_their_place() -> None:
    def step(count: int) -> dict[str, object]:
        return {"scheduled": [["r0", count]], "new": [], "free": 3}

    oracle = {"plan": {"status": "ok"}, "steps": [step(8)], "end": {"kind": "done"}}
    subject = {"plan": {"status": "ok"}, "steps": [step(8), step(1)], "end": {"kind": "done"}}

    rows = text(table(oracle, subject, "steps")).splitlines()

    assert [row.split()[0] for row in rows] == [
        "at",
        "plan.status",
        "steps[0].scheduled",
        "steps[0].free",
        "steps[1].scheduled",
        "steps[1].free",
        "end.kind",
    ]
    assert rows[4].split() == ["steps[1].scheduled", "–", "r0:1"]
