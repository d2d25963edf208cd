"""When a server is used again and when not, in what order scripts are played, and what a dead server means."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.errors import UsageError
from parity.observation import After, Ended, Serve
from parity.scenario import Exit, Send, ServeScenario, Signal
from parity.serve import side as module
from parity.serve.side import MAX_DEATHS, MAX_HOPELESS, ServeSide, Setup, in_playing_order
from parity.serve.target import PlayFailed
from parity.serve.watch import Sight
from tests.parity.serve.kit import fake_launcher
from tests.parity.serve.scripts import exchange
from tests.parity.served import server_config

IDLE = After(running=0, waiting=0, cache_in_use=False)


class StubServer:
    """A server of which only its life is known."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_up = True

    def alive(self) -> bool:
        return self.is_up

    def close(self) -> None:
        self.is_up = False

    def wait(self, seconds: float) -> Ended:
        assert 0 < seconds < 1
        return Ended("exited", 139, 0)

    def last_words(self) -> str:
        return "Segmentation fault"


class Room:
    """What was started, and what a played script says; `after` and `fails` are the next play's."""

    def __init__(self) -> None:
        self.started: list[StubServer] = []
        self.played: list[int] = []
        self.sights: list[Sight] = []
        self.after: After | None = IDLE
        self.fails: Exception | None = None
        self.dies = False
        self.start_fails: Exception | None = None

    def start(self, *_: Any, **__: Any) -> StubServer:
        if self.start_fails is not None:
            raise self.start_fails
        assert all(not server.is_up for server in self.started), "two servers of one side at once"
        self.started.append(StubServer(len(self.started) + 1))
        return self.started[-1]

    async def play(self, scenario: ServeScenario, server: StubServer, sight: Sight) -> Serve:
        self.played.append(server.number)
        self.sights.append(sight)
        if self.dies:
            server.is_up = False
        if self.fails is not None:
            raise self.fails
        is_ended = scenario.ends_server
        return Serve(
            exchanges=[],
            conditions=[],
            health=[200],
            preempted=False,
            after=None if is_ended else self.after,
            ended=Ended("exited", 0, 0) if is_ended else None,
        )


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room()
    monkeypatch.setattr(module, "start", room.start)
    monkeypatch.setattr(module, "play", room.play)
    return room


@pytest.fixture
def side(room: Room, tmp_path: Path) -> ServeSide:
    assert not room.started
    setup = Setup(fake_launcher(), "python", {}, tmp_path, tmp_path, tmp_path)
    return ServeSide("subject", setup, lambda _who, _what: contextlib.nullcontext())


def ask(blocks: int = 4, *, fresh: bool = False, ends: bool = False) -> ServeScenario:
    actions = [Signal("TERM"), Exit(1.0)] if ends else [Send(exchange("a", "/health"))]
    config = server_config(num_blocks=blocks)
    return ServeScenario(id="serving/a", level="serve", config=config, script=list(actions), fresh=fresh)


def play(side: ServeSide, *scenarios: ServeScenario) -> list[str | None]:
    failures = []
    for scenario in scenarios:
        side.begin(scenario)
        failures.append(side.finish().failure)
    return failures


def test_scripts_of_one_configuration_share_a_server(side: ServeSide, room: Room) -> None:
    play(side, ask(), ask(), ask(8))

    assert room.played == [1, 1, 2]
    assert side.times.starts == 2


def test_a_fresh_server_is_one_that_nobody_used(side: ServeSide, room: Room) -> None:
    play(side, ask(fresh=True), ask(), ask(fresh=True))

    assert room.played == [1, 1, 2]


def test_a_server_that_got_a_signal_is_not_used_again(side: ServeSide, room: Room) -> None:
    play(side, ask(), ask(ends=True), ask())

    assert room.played == [1, 1, 2]


@pytest.mark.parametrize("left", [{"running": 1}, {"waiting": 1}, {"cache_in_use": True}])
def test_a_server_that_did_not_get_its_blocks_back_is_not_used_again(
    side: ServeSide, room: Room, left: dict[str, Any]
) -> None:
    room.after = msgspec.structs.replace(IDLE, **left)
    play(side, ask())
    room.after = IDLE
    play(side, ask())

    assert room.played == [1, 2]


def test_a_server_that_died_fails_the_play_and_the_next_has_another(side: ServeSide, room: Room) -> None:
    room.fails, room.dies = PlayFailed("the server ended; its last words: Killed"), True
    (failure,) = play(side, ask())
    room.fails, room.dies = None, False

    assert failure == "the server ended; its last words: Killed"
    assert play(side, ask()) == [None]
    assert room.played == [1, 2]


@pytest.mark.parametrize("blocks", [4, 8])
def test_a_server_that_dies_between_two_scripts_fails_the_second(
    side: ServeSide, room: Room, blocks: int
) -> None:
    play(side, ask())
    assert side.lost() is None
    room.started[0].is_up = False

    (failure,) = play(side, ask(blocks))

    assert failure is not None
    assert "ended by itself with status 139" in failure
    assert "after it had played serving/a" in failure
    assert "Segmentation fault" in failure
    assert play(side, ask(blocks)) == [None]
    assert side.lost() is None


def test_a_server_that_dies_after_its_script_is_told_once(side: ServeSide, room: Room) -> None:
    play(side, ask())
    room.started[0].is_up = False

    told = side.lost()

    assert told is not None
    assert "ended by itself with status 139" in told
    assert side.lost() is None
    assert play(side, ask()) == [None]
    assert room.played == [1, 2]


def test_a_subject_whose_servers_always_die_is_given_up(side: ServeSide, room: Room) -> None:
    room.fails, room.dies = PlayFailed("gone"), True

    failures = play(side, *[ask()] * (MAX_DEATHS + 1))

    assert failures[:-1] == ["gone"] * MAX_DEATHS
    assert failures[-1] is not None
    assert f"after {MAX_DEATHS} servers of this configuration in a row died" in failures[-1]
    assert len(room.started) == MAX_DEATHS


def test_a_server_that_does_not_start_fails_the_play(side: ServeSide, room: Room) -> None:
    room.start_fails = PlayFailed("subject ended with status 1 before it was ready")

    assert play(side, ask()) == ["subject ended with status 1 before it was ready"]


@pytest.mark.parametrize("error", [UsageError("no model"), ZeroDivisionError("a fault of ours")])
def test_what_is_no_failure_of_the_side_reaches_who_waits(
    side: ServeSide, room: Room, error: Exception
) -> None:
    room.start_fails = error
    side.begin(ask())

    with pytest.raises(type(error), match=str(error)):
        side.finish()


def test_close_ends_the_server_and_a_start_that_is_under_way(
    side: ServeSide, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(side, ask())
    begun = threading.Event()

    def slow(*_: Any, stop: threading.Event, **__: Any) -> StubServer:
        begun.set()
        assert stop.wait(10)
        raise PlayFailed("called off")

    monkeypatch.setattr(module, "start", slow)
    side.begin(ask(8))
    assert begun.wait(10)

    side.close()

    assert not room.started[0].is_up
    assert side.finish().failure == "called off"


def test_scripts_are_grouped_by_server_and_those_that_end_it_come_last() -> None:
    scripts = [ask(4, ends=True), ask(8), ask(4, fresh=True), ask(4), ask(8, ends=True)]

    order = in_playing_order(scripts)

    assert [scripts.index(scenario) for scenario in order] == [3, 2, 0, 1, 4]


def test_deaths_are_counted_in_a_row_and_by_configuration(side: ServeSide, room: Room) -> None:
    def lose(blocks: int) -> None:
        room.fails, room.dies = PlayFailed("gone"), True
        assert play(side, ask(blocks)) == ["gone"]
        room.fails, room.dies = None, False

    for _ in range(MAX_DEATHS - 1):
        lose(4)
    assert play(side, ask(4)) == [None]
    for _ in range(MAX_DEATHS):
        lose(4)

    assert play(side, ask(4))[0] is not None
    assert play(side, ask(8)) == [None]


def test_a_subject_of_which_no_server_ever_comes_up_is_given_up(side: ServeSide, room: Room) -> None:
    room.start_fails = PlayFailed("no")
    tried = [ask(blocks) for blocks in range(4, 4 + MAX_HOPELESS) for _ in range(MAX_DEATHS)]
    assert play(side, *tried) == ["no"] * len(tried)
    room.start_fails = None

    (failure,) = play(side, ask(99))

    assert failure is not None
    assert "none of its servers came up" in failure
    assert not room.started


@pytest.mark.parametrize(("one", "other"), [({"top_k": True}, {"top_k": 1}), ({"x": 8}, {"x": 8.0})])
def test_configurations_that_python_takes_for_equal_are_two(
    side: ServeSide, room: Room, one: dict[str, Any], other: dict[str, Any]
) -> None:
    scripts = [
        msgspec.structs.replace(ask(), config=server_config(override_generation_config=given))
        for given in (one, other, one)
    ]
    assert scripts[0].config == scripts[1].config

    play(side, *in_playing_order(scripts))

    assert room.played == [1, 1, 2]


def test_close_ends_a_script_that_is_under_way(
    side: ServeSide, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    async def endless(*_: Any) -> Serve:
        begun.set()
        await asyncio.sleep(600)
        raise AssertionError

    monkeypatch.setattr(module, "play", endless)
    side.begin(ask())
    assert begun.wait(10)
    since = time.monotonic()

    side.close()

    assert time.monotonic() - since < 2
    assert side.finish().failure == "a script on server 1 was called off"
    assert not room.started[0].is_up


def test_a_server_that_comes_up_while_the_side_is_closed_is_ended(
    side: ServeSide, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def late(*_: Any, stop: threading.Event, **__: Any) -> StubServer:
        begun.set()
        assert stop.wait(10)
        return room.start()

    monkeypatch.setattr(module, "start", late)
    side.begin(ask())
    assert begun.wait(10)

    side.close()

    assert not room.started[0].is_up
    assert room.played == []


def test_messages_and_logs_tell_the_side_and_the_launcher(
    tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher's own name may be the other side's."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(module, "start", lambda *_, **named: given.update(named) or room.start())
    said: list[tuple[str, str]] = []

    def announce(who: str, what: str) -> contextlib.nullcontext[None]:
        said.append((who, what))
        return contextlib.nullcontext()

    launcher = msgspec.structs.replace(fake_launcher(), name="vllm")
    one = ServeSide("subject", Setup(launcher, "python", {}, tmp_path, tmp_path, tmp_path), announce)

    play(one, ask())

    assert one.name == "subject (vllm)"
    assert given["log"].name == "01-subject-tiny-opt.log"
    assert said == [
        ("subject (vllm)", "server 1 (tiny-opt, 4 blocks of 16, max_model_len auto)"),
    ]


def test_where_nobody_looks_at_the_load_a_server_is_used_until_a_script_ends_it(
    room: Room, tmp_path: Path
) -> None:
    """Of one without `/metrics`, nobody could say that it did not come to rest."""
    room.after = None
    blind = Sight(load=False)
    setup = Setup(fake_launcher(), "python", {}, tmp_path, tmp_path, tmp_path, blind)
    side = ServeSide("subject", setup, lambda _who, _what: contextlib.nullcontext())

    assert play(side, ask(), ask(), ask(ends=True), ask()) == [None] * 4

    assert room.played == [1, 1, 1, 2]
    assert room.sights == [blind] * 4
