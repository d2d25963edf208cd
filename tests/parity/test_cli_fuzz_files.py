"""`parity shrink`, `promote` and `replay` on files: what they print, write and refuse, and their exit codes."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from parity.cli import main as command
from parity.cli import shrink as shrink_verb
from parity.fuzz import shrink as shrinking
from parity.fuzz.found import Found, found_text, parse_found, read_found
from parity.fuzz.live import Live
from parity.fuzz.text import dump, laid
from parity.root import CODE_ROOT
from parity.suite import load_suite, select
from tests.parity.fuzz import planted

STUCK = {
    "level": "schedule",
    "config": {"model": "tiny-opt", "num_blocks": 4},
    "requests": [{"id": "r0", "prompt": 8, "max_tokens": 56}],
}


def run(*arguments: str) -> int:
    return command.main(list(arguments))


@pytest.fixture
def faulty(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The verbs play an engine whose free order is wrong, and this file is a timeline that shows it."""
    planted.use(monkeypatch, planted.free_order)
    path = here / "drawn.yaml"
    path.write_text(dump(laid(planted.timeline(0) | {"title": "Drawn"})))
    return path


@pytest.fixture(scope="module")
def shrunk_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `parity shrink` makes of that timeline."""
    folder = tmp_path_factory.mktemp("shrunk")
    (folder / "drawn.yaml").write_text(dump(laid(planted.timeline(0) | {"title": "Drawn"})))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(CODE_ROOT)
        planted.use(patch, planted.free_order)
        assert run("shrink", str(folder / "drawn.yaml"), "--out", str(folder / "small.yaml")) == 0
    return (folder / "small.yaml").read_text()


@pytest.fixture
def small(faulty: Path, shrunk_text: str) -> Path:
    """A found file, shrunk."""
    path = faulty.with_name("small.yaml")
    path.write_text(shrunk_text)
    return path


@pytest.fixture
def clone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The verbs write into a copy of the suite."""
    monkeypatch.setattr("parity.root.project_root", lambda: checkout)
    return checkout


def stuck(path: Path, **changes: Any) -> Path:
    """A found file of a wedge that a record covers."""
    values: dict[str, Any] = {"fingerprint": "f1:2add85e2ca52c437", "shape": "x", "attribution": "mirrored"}
    values |= {"property": "terminates", "at": "end", "oracle": 1, "subject": 1, "pin": "0.27.1"}
    path.write_text(found_text(Found(**(values | {"scenario": STUCK} | changes))))
    return path


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
    looks = []
    look = Live.look

    def interrupted(self: Live, *values: Any) -> Any:
        looks.append(values)
        if len(looks) == 12:
            signal.raise_signal(signal.SIGINT)
        return look(self, *values)

    monkeypatch.setattr(Live, "look", interrupted)

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
        (["none.jsonl#a/b"], 2, "there is no run file none.jsonl"),
        (
            ["{file}", "--fingerprint", "f1:0000000000000000"],
            2,
            "does not show f1:0000000000000000: it shows f1:",
        ),
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
    }
    files["stuck"].write_text(body)
    files["quiet"].write_text(body.replace("56", "5"))
    files["sweep"].write_text(body.replace("56", '"${n}"') + "sweep:\n  id: n${n}\n  axes:\n    n: [5, 6]\n")
    files["wrong"].write_text(body.replace("num_blocks", "num_blcks"))

    assert run("shrink", *(item.format(**files) for item in arguments)) == code

    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("parity: ")
    assert said in last


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
        (["--name", "twice", "--family", "preemption"], "exists already, and is not overwritten"),
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


def test_replay_says_that_it_still_shows(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run("replay", str(small))

    found = read_found(small)
    assert code == 1
    assert capsys.readouterr().out.startswith(
        f"FAILED  {small}: {found.fingerprint} still shows at {found.at}: oracle "
    )


def test_replay_says_that_it_is_fixed(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.use(monkeypatch, None)

    code = run("replay", str(small), "--json")

    said = json.loads(capsys.readouterr().out)
    assert code == 0
    assert said["counts"] == {"FIXED": 1}
    assert said["replays"][0]["detail"] == f"{read_found(small).fingerprint} no longer shows"


def test_replay_names_the_record_that_covers_it_now(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run("replay", str(stuck(faulty.with_name("stuck.yaml"))))

    assert code == 0
    assert (
        "still shows, and the record preemption/sole-request-waits-for-ever covers it"
        in capsys.readouterr().out
    )


def test_replay_says_what_shows_in_its_place(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stuck(faulty.with_name("stuck.yaml"), fingerprint="f1:0000000000000000")

    assert run("replay", str(path)) == 0
    assert "f1:0000000000000000 no longer shows, but f1:2add85e2ca52c437 does" in capsys.readouterr().out


def test_a_side_that_fails_is_void_and_wins_over_what_still_shows(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.use(monkeypatch, lambda patch: patch.setattr("parity.engine_side.observe", _raise))
    failed = stuck(small.with_name("void.yaml"), fingerprint="void:subject", attribution=None)

    code = run("replay", str(small), str(failed))

    lines = capsys.readouterr().out.splitlines()
    assert code == 2
    assert [line.split()[0] for line in lines] == ["VOID", "FAILED"]


def _raise(*_: object) -> None:
    raise ZeroDivisionError


def test_all_that_is_kept_is_played(small: Path, clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = clone / "runs" / "found"
    folder.mkdir(parents=True)
    small.rename(folder / "a.yaml")
    stuck(folder / "b.yaml")

    code = run("replay", "--all")

    assert code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["FAILED  runs/found/a.yaml", "FIXED  runs/found/b.yaml"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 64, "give files or --all, one of them"),
        (["--all", "x.yaml"], 64, "give files or --all, one of them"),
        (["--all"], 2, "nothing is kept in runs/found"),
        (["x.yaml"], 64, "x.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    clone: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert clone.is_dir()
    assert run("replay", *arguments) == code
    assert said in capsys.readouterr().err.splitlines()[-1]
