"""A server that runs already: what is checked before anything is written, what is played, and what its end means."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oracle.pins import load_pin
from parity import session
from parity.ask import Ask
from parity.errors import InconclusiveError, UsageError
from parity.finding import Verdict
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.scenario import AtOnce, Case, Exit, Pause, Send, ServeScenario, Signal, Until
from parity.serve import http as module
from parity.serve.http import HttpSide
from parity.serve.watch import WHOLE, Sight
from parity.session import run
from parity.subjects.choice import sort_out
from parity.subjects.players import Stage, SubjectPlayer
from parity.subjects.subject import load_subject
from tests.engine.server.running import running as nullblock_serve
from tests.parity.serve.scripts import exchange, script
from tests.parity.served import case as served_case
from tests.parity.served import server_config
from tests.parity.subjects.running import BLIND, CAPABLE, ListedServer, http_subject, running

CONFIG = server_config(num_blocks=64, max_model_len=256)
MODELS = Path("/nowhere/.models")
WEDGE = "serving/null-block-wedge"
FLAGS = (
    *("--served-model-name", "tiny-opt", "--dtype", "float32"),
    *("--num-gpu-blocks-override", "64", "--block-size", "16", "--max-model-len", "256"),
    *("--max-num-seqs", "16", "--max-num-batched-tokens", "2048"),
)


def side_of(server: ListedServer, sight: Sight = WHOLE) -> HttpSide:
    return HttpSide("subject", server.base_url, CONFIG, sight, MODELS)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_script_is_played_on_it() -> None:
    with running() as server:
        side = side_of(server)
        side.check()
        side.begin(script(Send(exchange("models", "/v1/models")), AtOnce([exchange("a", "/stream")])))
        play = side.finish()

    assert play.failure is None
    assert play.observation is not None
    assert [answer.ending for answer in play.observation.exchanges] == ["answered", "answered"]
    listed = play.observation.exchanges[0].body["data"][0]
    assert listed["root"] == "<model>"  # the folder that it serves is its owner's, wherever that is
    assert (play.observation.health, play.observation.preempted) == ([200], False)


def test_without_a_load_to_look_at_it_is_asked_for_the_script_alone() -> None:
    with running(lambda server: setattr(server, "has_metrics", False)) as server:
        side = side_of(server, Sight(health=False, load=False))
        side.begin(script(Send(exchange("a", "/plain"))))
        play = side.finish()

    assert play.failure is None
    assert play.observation is not None
    assert (play.observation.health, play.observation.after) == ([], None)
    assert server.looks == ["/plain"]


def test_a_server_that_dies_in_mid_script_is_no_answer() -> None:
    with running() as server:
        side = side_of(server)
        side.begin(script(Send(exchange("a", "/closing")), Send(exchange("b", "/plain"))))
        play = side.finish()

    assert play.observation is None
    assert play.failure == (
        "the server takes no connection any more (Connection refused), and the script had sent it no signal"
    )


def test_a_server_that_dies_unseen_is_no_answer_either() -> None:
    """Nobody looks at its load, and the script asks it for nothing more."""
    with running() as server:
        side = side_of(server, Sight(health=False, load=False))
        side.begin(script(Send(exchange("a", "/closing"))))
        play = side.finish()

    assert play.observation is None
    assert "takes no connection any more" in str(play.failure)


def test_a_script_is_called_off_at_once() -> None:
    with running() as server:
        side = side_of(server)
        side.begin(script(Send(exchange("a", "/silent"))))
        time.sleep(0.3)
        began = time.monotonic()
        side.close()
        play = side.finish()

    assert time.monotonic() - began < 5
    assert play.failure == f"a script on {server.base_url} was called off"
    assert server.gone == ["/silent"]


def test_what_it_does_for_others_is_not_taken_for_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE", 0.2)
    with running(lambda server: setattr(server, "running", 2)) as server:
        side = side_of(server)
        side.begin(script(Send(exchange("a", "/plain"))))
        play = side.finish()

    assert play.failure == (
        "the server is not idle before the script: 2 running, 0 waiting, no block is held; is somebody else using it?"
    )
    assert "/plain" not in server.looks


def test_what_breaks_in_the_player_is_our_own_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(module, "play", broken)
    with running() as server:
        side = side_of(server, Sight(load=False))
        side.begin(script(Send(exchange("a", "/plain"))))
        with pytest.raises(KeyError, match="ours"):
            side.finish()


def no_metrics(server: ListedServer) -> None:
    server.has_metrics = False


def fewer_blocks(server: ListedServer) -> None:
    server.cache_labels = 'block_size="32",num_gpu_blocks="4"'


def another_model(server: ListedServer) -> None:
    server.cards = [{"id": "huge"}]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (no_metrics, "has not what the capability metrics claims: /metrics answers 404"),
        (
            fewer_blocks,
            "says block_size = 32 where 16 was asked for; num_blocks = 4 where 64 was asked for",
        ),
        (another_model, "says model = huge where tiny-opt was asked for"),
    ],
)
def test_what_is_not_as_its_file_says_is_told_before_a_file_is_written(
    change: Callable[[ListedServer], None], says: str, tmp_path: Path
) -> None:
    with running() as reference, running(change) as server:
        subject = http_subject(tmp_path, server.base_url)
        against = http_subject(tmp_path, reference.base_url, "reference")
        with pytest.raises(InconclusiveError) as caught:
            played(tmp_path, subject, against)

    assert says in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert not (tmp_path / "run.jsonl").exists()


def test_the_length_that_it_serves_is_held_against_the_one_it_was_started_with() -> None:
    with running() as server:
        side = HttpSide(
            "subject", server.base_url, server_config(num_blocks=64, max_model_len=48), WHOLE, MODELS
        )
        with pytest.raises(InconclusiveError, match="max_model_len = 256 where 48 was asked for"):
            side.check()


def test_nobody_there_is_told_before_a_file_is_written(tmp_path: Path) -> None:
    with running() as reference:
        subject = http_subject(tmp_path, f"http://127.0.0.1:{closed_port()}")
        against = http_subject(tmp_path, reference.base_url, "reference")
        with pytest.raises(InconclusiveError, match=r"no server answers at .* start it, then run again"):
            played(tmp_path, subject, against)

    assert not (tmp_path / "run.jsonl").exists()


def test_a_server_that_completes_nothing_is_not_judged(tmp_path: Path) -> None:
    with running() as server:
        server.completes = False
        subject = http_subject(tmp_path, server.base_url)
        with pytest.raises(InconclusiveError, match="completes no token of tiny-opt: it answered 501"):
            played(tmp_path, subject, http_subject(tmp_path, server.base_url, "reference"))

    assert not (tmp_path / "run.jsonl").exists()


def played(folder: Path, subject: Path, against: Path) -> session.Run:
    ask = Ask(
        CODE_ROOT,
        ids=("serving/routes/models",),
        subject=str(subject),
        against=str(against),
        out=folder / "run.jsonl",
    )
    return run(ask, RunProgress())


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (", blocks = 4", "unknown field `blocks` - at `$.door.http.config`"),
        (', block_size = "16"', "Expected `int`, got `str` - at `$.door.http.config.block_size`"),
        (", block_size = 0", "Expected `int` >= 1 - at `$.door.http.config.block_size`"),
        (", enable_prefix_caching = 1", "Expected `bool`, got `int`"),
    ],
)
def test_what_it_was_started_with_is_checked_like_a_scenario(config: str, says: str, tmp_path: Path) -> None:
    path = http_subject(tmp_path, "http://127.0.0.1:8000", config=config)

    with pytest.raises(UsageError) as caught:
        load_subject(path)

    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("url", ["http://host:99999", "http://:80", "http://host:0", "http://[::1"])
def test_an_address_that_nobody_could_have_is_a_usage_error(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no address"):
        load_subject(http_subject(tmp_path, url))


def test_without_metrics_a_subject_does_not_show_what_only_they_tell(tmp_path: Path) -> None:
    path = http_subject(tmp_path, "http://127.0.0.1:8000", more='capabilities = ["float32-weights"]')

    with pytest.raises(UsageError, match="shows preempted and after, which are read from /metrics"):
        load_subject(path)


def http_case(*actions: Any, fresh: bool = False, **config: Any) -> Case:
    one = served_case(*actions)
    assert isinstance(one.scenario, ServeScenario)
    scenario = ServeScenario(
        one.scenario.id,
        "serve",
        server_config(**{"num_blocks": 64, "max_model_len": 256} | config),
        one.scenario.script,
        fresh,
    )
    return Case(scenario, one.title, [], [], None, one.path, 1)


@pytest.mark.parametrize(
    ("case", "why", "missing"),
    [
        (http_case(num_blocks=4), "unobserved", ("started with num_blocks = 4",)),
        (
            http_case(enable_prefix_caching=False, generation_config={"top_k": 1}),
            "unsupported",
            ("generation-config",),
        ),
        (http_case(max_model_len=64), "unobserved", ("started with max_model_len = 64",)),
        (http_case(fresh=True), "unobserved", ("a fresh server",)),
        (http_case(Signal("TERM"), Exit(1.0)), "unsupported", ("signals",)),
    ],
)
def test_what_it_cannot_be_compared_in_is_counted(
    case: Case, why: str, missing: tuple[str, ...], tmp_path: Path
) -> None:
    subject = load_subject(http_subject(tmp_path, "http://127.0.0.1:8000"))

    compared, (other,) = sort_out([case], [subject])

    assert compared == []
    assert (other.why, other.missing) == (why, missing)


@pytest.mark.parametrize(
    "case",
    [
        http_case(Send(exchange("a", "/v1/completions", deadline=1.0))),
        http_case(Send(exchange("a", "/metrics"))),
        http_case(Until(running=0, waiting=1, within=1.0)),
    ],
)
def test_without_metrics_what_looks_at_the_load_is_unsupported(case: Case, tmp_path: Path) -> None:
    """Of a client that gave up, nobody could say whether the server was silent or at work."""
    subject = load_subject(http_subject(tmp_path, "http://127.0.0.1:8000", more=BLIND))

    _, (other,) = sort_out([case], [subject])

    assert (other.why, other.missing) == ("unsupported", ("metrics",))


def test_a_server_without_health_and_metrics_is_compared_in_what_is_left(tmp_path: Path) -> None:
    subject = load_subject(http_subject(tmp_path, "http://127.0.0.1:8000", more=BLIND))
    case = http_case(Send(exchange("a", "/v1/models")), Pause(0.1))

    assert sort_out([case], [subject]) == ([case], ())


def test_a_server_that_runs_takes_no_policy(tmp_path: Path) -> None:
    with running() as server:
        loaded = load_subject(http_subject(tmp_path, server.base_url))
        stage = Stage(CODE_ROOT, tmp_path, RunProgress())
        player = SubjectPlayer("subject", stage, loaded, load_pin(CODE_ROOT, None))
        with pytest.raises(UsageError, match="runs already, and takes no policy"):
            player.prepare([(http_case(), {"null-block-capacity": "reserve"})])
    assert CAPABLE in loaded.path.read_text()


def test_two_servers_that_run_are_held_against_each_other(tmp_path: Path) -> None:
    """The reference shows what the subject hides: both are blank there, and the run counts it."""
    with running() as reference, running(no_metrics) as server:
        server.cards[0]["parent"] = "somebody"
        subject = http_subject(tmp_path, server.base_url, more=BLIND)
        done = played(tmp_path, subject, http_subject(tmp_path, reference.base_url, "reference"))

    (result,) = done.outcome.scenarios
    assert result.verdict is Verdict.NEW
    assert result.decided[0].finding.at == "exchanges[0].body.data[0].parent"
    assert result.unobserved == 3  # health, preempted, after


@pytest.mark.model
def test_our_own_server_that_somebody_started_matches_the_one_that_the_harness_starts(
    tmp_path: Path,
) -> None:
    from engine.model_files import make_tiny_opt

    model = tmp_path / "of-somebody-else" / "tiny-opt"
    model.mkdir(parents=True)
    make_tiny_opt(model)
    with nullblock_serve(model, *FLAGS) as server:
        subject = http_subject(tmp_path, server.base)
        ask = Ask(
            CODE_ROOT,
            ids=("serving/routes", WEDGE, "shutdown/sigterm-idle"),
            subject=str(subject),
            against="engine",
            out=tmp_path / "run.jsonl",
        )
        outcome = run(ask, RunProgress()).outcome
        assert server.process.poll() is None  # it is left as it was

    assert {result.verdict for result in outcome.scenarios} == {Verdict.MATCH}
    assert {(item.id, item.why, item.missing) for item in outcome.not_compared} == {
        (WEDGE, "unobserved", ("started with num_blocks = 4", 'started with max_model_len = "auto"')),
        ("shutdown/sigterm-idle", "unsupported", ("signals",)),
    }
