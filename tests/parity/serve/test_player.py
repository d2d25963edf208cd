"""Scripts played against a server of vices: what is observed, and what makes a play void."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from parity.observation import After, Ended, Serve
from parity.scenario import Action, AtOnce, Await, Exit, Leave, Open, Pause, Send, Signal, Until
from parity.serve import exchange as exchanges
from parity.serve import player
from parity.serve.player import play
from parity.serve.target import PlayFailed
from tests.parity.serve.fake_http import FakeServer, fake_server
from tests.parity.serve.scripts import exchange, script

Prepare = Callable[[FakeServer], None]


def as_it_is(server: FakeServer) -> None:
    """A server without a load."""


def stuck(server: FakeServer) -> None:
    server.waiting = 1


def busy(server: FakeServer) -> None:
    server.running = 1


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "SETTLE", 0.3)
    monkeypatch.setattr(player, "DYING", 0.2)
    monkeypatch.setattr(exchanges, "LIMIT", 3.0)


def played(*actions: Action, prepare: Prepare = as_it_is) -> Serve:
    return played_on(prepare, *actions)[0]


def played_on(prepare: Prepare, *actions: Action) -> tuple[Serve, FakeServer]:
    async def run() -> tuple[Serve, FakeServer]:
        async with fake_server() as server:
            prepare(server)
            seen = await play(script(*actions), server)
            await server.settled()
            return seen, server

    return asyncio.run(run())


def failure(*actions: Action, prepare: Prepare = as_it_is) -> str:
    """How the play failed; every client is gone by then."""

    async def run() -> str:
        async with fake_server() as server:
            prepare(server)
            with pytest.raises(PlayFailed) as failed:
                await play(script(*actions), server)
            await server.settled()
            return str(failed.value)

    return asyncio.run(run())


def endings(seen: Serve) -> list[str]:
    return [answer.ending for answer in seen.exchanges]


def test_answers_come_in_the_order_of_the_script() -> None:
    seen = played(
        Open(exchange("a", "/stream")),
        AtOnce([exchange("b", "/plain"), exchange("c", "/stream")]),
        Send(exchange("d", "/metrics")),
    )

    assert [answer.id for answer in seen.exchanges] == ["a", "b", "c", "d"]
    assert endings(seen) == ["answered"] * 4
    assert seen.exchanges[1].body == {"id": "cmpl-1", "created": "*"}
    assert seen.exchanges[1].headers == {"content-type": "application/json", "allow": "GET"}
    streams = [seen.exchanges[index].stream for index in (0, 2)]
    assert None not in streams
    ids = [stream.choices[0].joined["frame"]["id"] for stream in streams if stream is not None]
    assert ids == ["cmpl-1", "cmpl-1 of a"]
    assert seen.exchanges[3].body["running"] == 0
    assert (seen.conditions, seen.health, seen.preempted, seen.ended) == ([], [200], False, None)
    assert seen.after == After(running=0, waiting=0, cache_in_use=False)


def test_a_silent_request_and_health_meanwhile() -> None:
    seen = played(Send(exchange("a", "/silent", deadline=0.4)), prepare=stuck)

    assert endings(seen) == ["silent"]
    assert seen.health == [200]
    assert seen.after == After(running=0, waiting=1, cache_in_use=False)


def test_health_that_changes_is_seen() -> None:
    def sick(server: FakeServer) -> None:
        server.health = b"503 Service Unavailable"

    assert played(Send(exchange("a", "/plain")), prepare=sick).health == [503]


def test_those_with_the_same_deadline_see_the_same_server() -> None:
    seen, server = played_on(stuck, AtOnce([exchange(f"r{n}", "/silent", deadline=0.3) for n in range(4)]))

    assert endings(seen) == ["silent"] * 4
    assert server.gone == ["/silent"] * 4


def test_until_tells_whether_it_came_true() -> None:
    seen = played(
        Until(running=1, waiting=None, within=1.0),
        Until(running=1, waiting=1, within=0.2),
        Until(running=None, waiting=0, within=0.2),
        prepare=busy,
    )

    assert seen.conditions == [True, False, True]


def test_a_client_that_leaves_keeps_only_what_is_no_matter_of_time() -> None:
    seen, server = played_on(
        as_it_is,
        Open(exchange("unseen", "/endless")),
        Pause(0.2),
        Leave("unseen"),
        Open(exchange("seen", "/endless")),
        Await("seen", "first"),
        Leave("seen"),
        Send(exchange("counted", "/endless", leave_after=2)),
        Open(exchange("ended", "/plain")),
        Await("ended", "end"),
        Leave("ended"),
    )

    assert endings(seen) == ["left", "left", "left", "answered"]
    assert [answer.status for answer in seen.exchanges] == [None, 200, 200, 200]
    streams = [answer.stream for answer in seen.exchanges]
    assert [streams[0], streams[3]] == [None, None]
    for stream in streams[1:3]:
        assert stream is not None
        assert stream.choices[0].kinds == ["cut"]
        assert stream.choices[0].joined["text"] == "a"
    assert server.gone == ["/endless"] * 3


def test_exchanges_left_open_are_awaited() -> None:
    seen = played(
        Open(exchange("a", "/silent", deadline=0.3)), Open(exchange("b", "/comments")), prepare=stuck
    )

    assert endings(seen) == ["silent", "answered"]
    stream = seen.exchanges[1].stream
    assert stream is not None
    assert stream.rest == ["frames of choices", ": still here", "frames of choices", "[DONE]"]


def test_a_signal_ends_the_watch_and_what_is_open_is_played_to_its_end() -> None:
    seen, server = played_on(
        as_it_is, Open(exchange("a", "/slow")), Pause(0.1), Signal("TERM"), Signal("INT"), Exit(within=1.0)
    )

    assert server.signals == ["TERM", "INT"]
    assert seen.exchanges[0].body == {"late": True}
    assert seen.after is None
    assert seen.ended == Ended(state="exited", code=0, orphans=0)
    assert seen.health == [200]


@pytest.mark.parametrize(("prepare", "text"), [(stuck, "abc"), (busy, "cut")])
def test_what_a_signal_cut_off_is_timed_only_while_tokens_came(prepare: Prepare, text: str) -> None:
    seen = played(Open(exchange("a", "/aborted")), Pause(0.1), Signal("TERM"), prepare=prepare)

    assert seen.exchanges[0].body["choices"][0]["text"] == text


def test_after_a_signal_a_connection_may_be_refused_and_the_server_gone() -> None:
    async def run() -> Serve:
        async with fake_server() as server:
            plain_signal = server.signal

            def signal(name: str) -> None:
                plain_signal(name)
                server.lives = False
                asyncio.get_running_loop().create_task(server.stop())

            server.signal = signal  # type: ignore[method-assign]
            return await play(
                script(
                    Signal("TERM"),
                    Pause(0.1),
                    Send(exchange("a", "/plain")),
                    Until(running=0, waiting=0, within=5.0),
                ),
                server,
            )

    seen = asyncio.run(run())

    assert endings(seen) == ["refused"]
    assert seen.conditions == [False]


@pytest.mark.parametrize(("rises", "preempted"), [(1, True), (0, False)])
def test_preempted_is_a_rise_of_the_counter_during_the_play(rises: int, preempted: bool) -> None:
    class Preempting(FakeServer):
        async def on_plain(self, write: Callable[..., object]) -> None:
            self.preemptions += rises
            await super().on_plain(write)  # type: ignore[arg-type]

    async def run() -> Serve:
        server = Preempting()
        server.preemptions = 7
        await server.start()
        try:
            return await play(script(Send(exchange("a", "/plain"))), server)
        finally:
            await server.stop()
            await server.settled()

    assert asyncio.run(run()).preempted is preempted


def test_a_server_that_dies_without_a_signal_makes_the_play_void() -> None:
    said = failure(Send(exchange("a", "/dies")))

    assert said == (
        "the server ended by itself with status 0, and the script had sent it no signal; its last words:\nout of cheese"
    )


def test_a_server_that_dies_while_nobody_asks_makes_the_play_void() -> None:
    def dying(server: FakeServer) -> None:
        server.lives = False

    for actions in ([Pause(9.0)], [Until(running=5, waiting=None, within=9.0)], [Exit(within=0.1)]):
        assert "the server ended by itself" in failure(*actions, prepare=dying)


def test_a_broken_answer_of_a_server_that_lives_is_an_observation() -> None:
    seen = played(Send(exchange("a", "/broken_frame")))

    assert endings(seen) == ["broken"]
    stream = seen.exchanges[0].stream
    assert stream is not None
    assert stream.choices[0].joined["text"] == "a"
    assert stream.rest == [{"partial": 'data: {"id":"cmpl-1","created"'}]


def test_a_server_that_lives_and_takes_no_connection_makes_the_play_void() -> None:
    said = failure(Send(exchange("a", "/closing")), Send(exchange("b", "/plain")))

    assert said == "exchange b: the server lives but takes no connection"


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (Send(exchange("a", "/silent")), "exchange a: no whole answer within 3 s"),
        (Leave("ghost"), "exchange ghost before it opens it"),
        (Await("ghost", "first"), "exchange ghost before it opens it"),
    ],
)
def test_other_plays_that_are_void(action: Action, says: str) -> None:
    assert says in failure(Open(exchange("open", "/head_only", deadline=9)), action)


def test_a_server_whose_metrics_do_not_tell_the_load_makes_the_play_void() -> None:
    def blind(server: FakeServer) -> None:
        server.on_metrics = server.on_plain  # type: ignore[method-assign]

    said = failure(Send(exchange("a", "/plain")), prepare=blind)

    assert said.startswith('/metrics has a line that is no sample: \'{"id":"cmpl-')
    assert said.endswith(": the level needs it")


def test_an_exchange_that_was_refused_before_the_signal_makes_the_play_void() -> None:
    said = failure(
        Send(exchange("last", "/away")),
        Open(exchange("early", "/plain")),
        Pause(0.4),
        Signal("TERM"),
        Await("early", "end"),
    )

    assert said == "exchange early: the server lives but takes no connection"
