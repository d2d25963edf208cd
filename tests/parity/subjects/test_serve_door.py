"""Somebody else's server behind the door `serve`: what of its file is refused, and what is told of one that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oracle.pins import load_pin
from parity.ask import Ask
from parity.errors import UsageError
from parity.finding import Verdict
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.scenario import Case, Send, ServeScenario
from parity.serve.keeper import below
from parity.session import run
from parity.subjects.choice import sort_out
from parity.subjects.players import MODELS, Stage, SubjectPlayer
from parity.subjects.subject import load_subject
from tests.parity.serve.kit import FAKE
from tests.parity.serve.scripts import exchange
from tests.parity.served import case as served_case
from tests.parity.served import server_config
from tests.parity.subjects.running import http_subject, running

COMMAND = f'["{{python}}", "{FAKE}", "{{port}}", "VICE", "{{model}}"]'
FLAGS = 'num_blocks = "--num-blocks"\nmax_model_len = "--length"'


def serve_subject(
    folder: Path, vice: str = "none", *, command: str = COMMAND, flags: str = FLAGS, seconds: float = 20.0
) -> Path:
    path = folder / "theirs.toml"
    path.write_text(
        f'name = "theirs"\nlevels = ["serve"]\nrecords = "theirs-records"\nsuite = "0.1"\n'
        f'capabilities = ["start-flags", "float32-weights", "metrics"]\n'
        f"[door.serve]\ncommand = {command.replace('VICE', vice)}\n"
        f'[door.serve.ready]\npath = "/health"\nseconds = {seconds}\n'
        f"[door.serve.flags]\n{flags}\n"
    )
    return path


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"command": '["server", "{model}"]'}, "door.serve: command has no {port}"),
        ({"command": '["server", "{port}"]'}, "door.serve: command has no {model}"),
        ({"flags": 'blocks = "--blocks"'}, "door.serve: flags: no configuration has blocks"),
        ({"flags": 'num_blocks = ["a\\u0000"]'}, "door.serve: flags: num_blocks: a text has a NUL in it"),
        ({"flags": "num_blocks = 4"}, "at `$.door.serve.flags[...]`"),
    ],
)
def test_what_could_start_no_server_is_told_of_its_file(
    changes: dict[str, str], says: str, tmp_path: Path
) -> None:
    path = serve_subject(tmp_path, **changes)

    with pytest.raises(UsageError) as caught:
        load_subject(path)

    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)


def asked(**config: object) -> Case:
    one = served_case(Send(exchange("a", "/v1/models")))
    assert isinstance(one.scenario, ServeScenario)
    scenario = ServeScenario(
        "serving/miniature", "serve", server_config(**config), one.scenario.script, False
    )
    return Case(scenario, one.title, [], [], None, one.path, 1)


@pytest.mark.parametrize(
    ("flags", "config", "missing"),
    [
        (FLAGS, {}, None),
        (FLAGS, {"block_size": 16}, None),  # the default needs no flag
        (FLAGS, {"block_size": 32}, ("flag block_size",)),
        ("", {}, ("flag num_blocks",)),
        (f"{FLAGS}\nenable_prefix_caching = {{ true = [] }}", {"enable_prefix_caching": True}, None),
        (
            f"{FLAGS}\nscheduling_policy = {{ fcfs = [] }}",
            {"scheduling_policy": "priority"},
            ("flag scheduling_policy",),
        ),
        (
            FLAGS,
            {"override_generation_config": {"top_k": 1}},
            ("generation-config", "flag override_generation_config"),
        ),
    ],
)
def test_what_there_is_no_flag_for_is_unsupported_and_stops_nothing_else(
    flags: str, config: dict[str, object], missing: tuple[str, ...] | None, tmp_path: Path
) -> None:
    subject = load_subject(serve_subject(tmp_path, flags=flags))
    case = asked(**config)

    compared, others = sort_out([case], [subject])

    assert compared == ([case] if missing is None else [])
    assert [(other.why, other.missing) for other in others] == (
        [] if missing is None else [("unsupported", missing)]
    )


@pytest.mark.model
@pytest.mark.parametrize(
    ("vice", "says", "last_words"),
    [
        ("dies at start", "server 1 ended with status 3 before it was ready", "no weights"),
        ("never ready", "server 1 did not answer /health with 200 within 1 s", "starting"),
        ("refuses", "server 1 answered its first completion with 500", "asked for"),
        ("dies at the first request", "server 1 ended with status 7 before it was ready", "asked for"),
        (
            "ignores a flag",
            "server 1 was not started as asked: it says block_size = 32 where 16 was asked for",
            "--num-blocks 64",
        ),
    ],
)
def test_a_server_that_cannot_be_used_is_told_in_a_line_with_the_tail_of_its_log(
    vice: str, says: str, last_words: str, tmp_path: Path
) -> None:
    (tmp_path / MODELS / "tiny-opt").mkdir(parents=True)
    before = below(os.getpid())
    loaded = load_subject(serve_subject(tmp_path, vice, seconds=1.0 if vice == "never ready" else 20.0))
    player = SubjectPlayer(
        "subject", Stage(tmp_path, tmp_path / "logs", RunProgress()), loaded, load_pin(CODE_ROOT, None)
    )
    case = asked()
    player.prepare([(case, {})])
    side = player.side(case, {})
    try:
        side.begin(case.scenario)
        play = side.finish()
    finally:
        player.close()

    assert play.observation is None
    first, *tail = str(play.failure).splitlines()
    assert first.startswith(says)
    assert first.endswith("; its last words:")
    assert last_words in "\n".join(tail)
    assert set(below(os.getpid())) <= set(before)


@pytest.mark.model
def test_a_server_that_does_not_start_makes_the_run_inconclusive(tmp_path: Path) -> None:
    with running() as reference:
        ask = Ask(
            CODE_ROOT,
            ids=("serving/routes/models",),
            subject=str(serve_subject(tmp_path, "dies at start")),
            against=str(http_subject(tmp_path, reference.base_url, "reference")),
            out=tmp_path / "run.jsonl",
        )
        outcome = run(ask, RunProgress()).outcome

    (result,) = outcome.scenarios
    assert (result.verdict, outcome.exit_code) == (Verdict.VOID, 2)
    assert "theirs" in str(result.detail)
    assert "no weights" in str(result.detail)
