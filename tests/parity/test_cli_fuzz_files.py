"""`parity shrink` and `promote` on files: what they print, write and refuse, and their exit codes."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.cli import shrink as shrink_verb
from parity.fuzz import shrink as shrinking
from parity.fuzz.found import parse_found, read_found
from parity.fuzz.live import Live
from parity.fuzz.log import FindLine, UnitLine, Writer
from parity.fuzz.text import dump, laid
from parity.fuzz.unit import Reduced
from parity.suite import load_suite, select
from tests.parity.fuzz import planted
from tests.parity.fuzz.files import STUCK, clone, faulty, run, shrunk_text, small, stuck
from tests.parity.fuzz.test_log import header
from tests.parity.fuzz.test_tally import done, find

__all__ = ["clone", "faulty", "shrunk_text", "small"]


def test_shrink_prints_a_found_file_and_writes_the_same(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = faulty.with_name("small.yaml")

    code = run("shrink", str(faulty), "--out", str(out))

    said = capsys.readouterr()
    found = parse_found(said.out.encode(), "stdout")
    assert code == 0
    assert out.read_text() == said.out
    assert len(found.scenario["requests"]) == 2
    assert (found.attribution, found.pin, found.policies) == ("ours", "0.27.1", {})
    assert "8 requests" in said.err
    assert said.err.splitlines()[-1] == f"next: parity promote {out}"


def test_shrink_gives_the_same_every_time(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for _ in range(2):
        run("shrink", str(faulty))
        outputs.append(capsys.readouterr().out)

    assert outputs[0] == outputs[1]


def test_shrink_writes_nothing_over(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run("shrink", str(faulty), "--out", str(faulty))

    assert code == 64
    assert "exists already" in capsys.readouterr().err


def test_shrink_as_json_has_the_finding_and_what_ended_it(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("shrink", str(faulty), "--attempts", "3", "--json")

    said = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (said["attempts"], said["stopped"], said["out"]) == (3, "attempts", None)
    assert said["scenario"]["level"] == "schedule"
    assert said["fingerprint"].startswith("f1:")


def test_shrink_stops_by_the_time_and_says_so(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("shrink", str(faulty), "--max-time", "0.000001") == 0
    assert "the time ran out: a larger --max-time may make it smaller" in capsys.readouterr().err


def test_shrink_goes_on_with_a_found_file(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is smallest stays, and the attempts add up."""
    code = run("shrink", str(small))

    before, after = read_found(small), parse_found(capsys.readouterr().out.encode(), "stdout")
    assert code == 0
    assert after.scenario == before.scenario
    assert (after.attempts or 0) > (before.attempts or 0)


def test_ctrl_c_prints_the_smallest_so_far(
    faulty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plays = []
    play = Live.play

    def interrupted(self: Live, *values: Any) -> Any:
        plays.append(values)
        if len(plays) == 12:
            signal.raise_signal(signal.SIGINT)
        return play(self, *values)

    monkeypatch.setattr(Live, "play", interrupted)

    code = run("shrink", str(faulty))

    said = capsys.readouterr()
    assert code == 130
    assert len(parse_found(said.out.encode(), "stdout").scenario["requests"]) < 8
    assert "interrupted: above is the smallest so far" in said.err


def test_a_scenario_of_a_run_is_shrunk_by_what_the_run_found(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.use(monkeypatch, planted.free_order)
    run("run", "--family", "caching", "--out", str(here / "run.jsonl"), "--json")
    shown = json.loads(capsys.readouterr().out)
    broken = next(
        item for item in shown["scenarios"] if item["verdict"] == "NEW" and item["id"].count("/") > 1
    )

    code = run("shrink", f"{here}/run.jsonl#{broken['id']}", "--json")

    said = json.loads(capsys.readouterr().out)
    assert code == 0
    assert said["fingerprint"] == broken["findings"][0]["fingerprint"]
    assert said["attempts"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["none.yaml"], 64, "none.yaml: cannot be read: No such file or directory — give a found file"),
        (["none.jsonl#a/b"], 64, "none.jsonl: is not there — give a run's file or a hunt's log before #"),
        (["{empty}"], 64, "is empty — give a found file"),
        (["{run}"], 64, "is a run's file — name one of its scenarios, as "),
        (["{plan}"], 64, "scenario.requests: level plan runs nothing, so it has no requests"),
        (
            ["{file}", "--fingerprint", "f1:0000000000000000"],
            2,
            "does not show f1:0000000000000000: it shows f1:",
        ),
        (["{file}", "--fingerprint", "terminates"], 64, "--fingerprint 'terminates' is none"),
        (["{stuck}"], 64, "records cover all that"),
        (["{quiet}"], 2, "shows no finding — there is nothing to shrink"),
        (["{sweep}"], 64, "sweep: the sweep has 2 scenarios"),
        (["{found}", "--policy", "null-block-capacity=reserve"], 64, "was found under its own policies"),
        (["{wrong}"], 64, "config.num_blcks: unknown key 'num_blcks'"),
    ],
)
def test_what_cannot_be_shrunk_is_one_line(
    faulty: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    body = dump(laid({"title": "x"} | STUCK))
    files = {
        "file": faulty,
        "stuck": faulty.with_name("stuck.yaml"),
        "quiet": faulty.with_name("quiet.yaml"),
        "sweep": faulty.with_name("sweep.yaml"),
        "found": stuck(faulty.with_name("found.yaml")),
        "wrong": faulty.with_name("wrong.yaml"),
        "empty": faulty.with_name("empty.yaml"),
        "run": faulty.with_name("a-run.jsonl"),
        "plan": stuck(faulty.with_name("plan.yaml"), scenario=STUCK | {"level": "plan"}),
    }
    files["empty"].write_text("\n")
    files["run"].write_text('{"line":"header"}\n')
    files["stuck"].write_text(body)
    files["quiet"].write_text(body.replace("56", "5"))
    files["sweep"].write_text(body.replace("56", '"${n}"') + "sweep:\n  id: n${n}\n  axes:\n    n: [5, 6]\n")
    files["wrong"].write_text(body.replace("num_blocks", "num_blcks"))

    assert run("shrink", *(item.format(**files) for item in arguments)) == code

    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("parity: ")
    assert said in last


def test_a_find_of_a_hunts_log_is_shrunk(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named by the log or by its folder, whether the hunt shrunk it or not."""
    shown = read_found(small).fingerprint
    drawn = msgspec.structs.replace(find("f1:a", 0), fingerprint=shown, document=planted.timeline(0))
    with Writer(small.with_name("hunt"), header()) as writer:
        writer.put(UnitLine(done(0, drawn)))

    for place in (writer.path, writer.path.parent):
        assert run("shrink", f"{place}#{shown}", "--attempts", "3", "--json") == 0
        assert json.loads(capsys.readouterr().out)["fingerprint"] == shown


def test_what_a_hunts_log_does_not_have_is_one_line(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = read_found(small).fingerprint
    document = STUCK | {"level": "plan"}
    strange = msgspec.structs.replace(find("f1:c", 0), policies={"sky": "blue"})
    with Writer(small.with_name("hunt"), header()) as writer:
        writer.put(UnitLine(done(0, find(shown, 0), strange)))
        writer.put(FindLine(Reduced(msgspec.structs.replace(find(shown, 0), document=document), 5, None)))

    for asked, said in (
        (f"{writer.path}#f1:b", f"has no find f1:b — it has: {shown}, f1:c"),
        (f"{writer.path}", f"is a hunt's log — name one of its finds after #: {shown}, f1:c"),
        (f"{writer.path.parent}", f"is a hunt's log — name one of its finds after #: {shown}, f1:c"),
        (f"{writer.path}#f1:c", "policies: unknown policy 'sky'"),
        (f"{writer.path}#{shown}", "requests: level plan runs nothing, so it has no requests"),
    ):
        for verb in ("shrink", "replay", "promote"):
            assert run(verb, asked) == 64
            error = capsys.readouterr().err
            assert said in error
            assert error.count("\n") == 1


def test_what_a_run_did_not_play_names_what_it_did(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.use(monkeypatch, None)
    run("run", "auto-fit/null-block", "--out", str(here / "run.jsonl"))

    code = run("shrink", f"{here}/run.jsonl#auto-fit/null-blok")

    assert code == 64
    assert "did not play auto-fit/null-blok — did you mean 'auto-fit/null-block'?" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--attempts", "0"], ["--max-time", "0"], ["--max-time", "x"]])
def test_a_budget_that_is_none_is_a_usage_error(option: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run("shrink", "x.yaml", *option)

    assert stop.value.code == 64


def test_the_budget_in_the_help_is_that_of_the_search() -> None:
    assert shrink_verb.ATTEMPTS == shrinking.ATTEMPTS


def test_promote_writes_a_scenario_of_the_suite(
    small: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("promote", str(small), "--name", "freed-first", "--family", "caching")

    said = capsys.readouterr()
    path = clone / "parity" / "scenarios" / "caching" / "freed-first.yaml"
    (case,) = select(load_suite(clone), ["caching/freed-first"])
    assert code == 0
    assert said.out.strip() == "parity/scenarios/caching/freed-first.yaml"
    assert case.title.startswith("Found by a hunt: a difference in evicted blocks")
    assert "next: edit the title, then parity run caching/freed-first" in said.err
    assert path.read_text().splitlines()[1:4] == [
        "level: schedule",
        "config: {model: tiny-opt, num_blocks: 4}",
        "requests:",
    ]


def test_promote_guesses_family_name_and_title(
    small: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("promote", str(small), "--json")

    said = json.loads(capsys.readouterr().out)
    assert code == 0
    assert said["id"].startswith("caching/evicted-longer-evict-")
    assert (clone / said["file"]).is_file()
    assert said["next"] == f"parity run {said['id']}"


def test_promote_refuses_a_question_that_the_suite_asks(
    small: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("promote", str(small), "--name", "one", "--family", "caching")

    code = run("promote", str(small), "--name", "two", "--family", "caching")

    assert code == 64
    assert "the suite asks this already: caching/one" in capsys.readouterr().err
    assert not (clone / "parity/scenarios/caching/two.yaml").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--name", "Twice"], "--name 'Twice' is not lower-case words joined by dashes"),
        (["--family", "cashing"], "no family 'cashing' — did you mean 'caching'?"),
        (["--title", "two\nlines"], "a title is one line"),
        (
            ["--name", "twice", "--family", "preemption"],
            "exists already, and is not overwritten — give another name with --name",
        ),
    ],
)
def test_promote_refuses_in_one_line_and_writes_nothing(
    small: Path, clone: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    before = {path: path.read_bytes() for path in (clone / "parity/scenarios").rglob("*.yaml")}

    assert run("promote", str(small), *options) == 64

    assert said in capsys.readouterr().err.splitlines()[-1]
    assert {path: path.read_bytes() for path in (clone / "parity/scenarios").rglob("*.yaml")} == before


def test_promote_says_what_was_not_shrunk_and_under_which_policy(
    here: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {**STUCK, "config": {**STUCK["config"], "num_blocks": 3}}  # type: ignore[dict-item]
    path = stuck(here / "f.yaml", scenario=body, policies={"null-block-capacity": "reserve"})

    assert run("promote", str(path), "--name", "tight") == 0

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("it was not shrunk: `parity shrink ")
    assert lines[-1].endswith("/tight --policy null-block-capacity=reserve")
    assert clone.is_dir()
