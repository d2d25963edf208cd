"""The promises of a server, on each side taken alone: what a client and an operator may rely on whoever serves.

Each is a pure function of the script and of what came of it, and gives every break: one exchange's break must not
hide another's. Breaks of one shape are one finding (`outcomes`). The names are `parity.levels.PROPERTIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from parity import serve_shapes
from parity.finding import Broken
from parity.observation import Answer, Serve
from parity.scenario import Exchange, Exit, Json, ServeScenario
from parity.serve.canonical import CHOICES, DONE
from parity.serve_usage import miscount

Check = Callable[[ServeScenario, Serve], Iterator[Broken]]


def answers(scenario: ServeScenario, observation: Serve) -> Iterator[Broken]:
    """Every exchange whose client stayed gets a whole answer; nobody is refused before the server was told to end.

    A server that refuses while nothing told it to end is no play at all (`parity/serve/player.py`), unless the
    script looks at that exchange only after its signal.
    """
    for index, exchange, answer in _exchanges(scenario, observation):
        is_broken = answer.ending in ("silent", "unanswered", "broken")
        if answer.ending == "refused":
            is_broken = not serve_shapes.signalled_before(scenario, exchange.id)
        if is_broken:
            at = f"exchanges[{index}].ending"
            yield _exchange_break("answers", at, answer.ending, scenario, observation, (exchange, answer))


def exits_on_signal(scenario: ServeScenario, observation: Serve) -> Iterator[Broken]:
    """Where the script waits for the end, the process ends in that time and leaves no process behind."""
    if not any(isinstance(action, Exit) for action in scenario.script):
        return
    ended = observation.ended
    at: str
    value: Json
    if ended is None:
        at, value = "ended", None
    elif ended.state == "alive":
        at, value = "ended.state", ended.state
    elif ended.orphans:
        at, value = "ended.orphans", ended.orphans
    else:
        return
    event = serve_shapes.end_event(ended)
    yield _whole_break("exits-on-signal", at, value, event, scenario, observation)


def health_tells_the_truth(scenario: ServeScenario, observation: Serve) -> Iterator[Broken]:
    """While nobody told the server to end, `/health` says 200 whenever it is asked: the process serves."""
    if any(status != 200 for status in observation.health):
        name = "health-tells-the-truth"
        yield _whole_break(name, "health", observation.health, "health", scenario, observation)


def stream_is_well_formed(scenario: ServeScenario, observation: Serve) -> Iterator[Broken]:
    """A whole stream: each choice ends with its one finish, `[DONE]` ends the stream, every frame is a JSON object.

    Where an error frame tells why, choices may lack their finish; `[DONE]` is due all the same. Comments are
    frames that clients pass over.
    """
    for index, exchange, answer in _exchanges(scenario, observation):
        if _is_whole_stream(answer):
            found = _malformed(answer)
            if found is not None:
                at, value = f"exchanges[{index}].stream.{found[0]}", found[1]
                yield _exchange_break(
                    "stream-is-well-formed", at, value, scenario, observation, (exchange, answer)
                )


def usage_adds_up(scenario: ServeScenario, observation: Serve) -> Iterator[Broken]:
    """What is billed is what came: total = prompt + completion, and completion = the tokens that a client can count."""
    for index, exchange, answer in _exchanges(scenario, observation):
        if answer.ending != "answered" or answer.status != 200:
            continue
        found = miscount(exchange, answer)
        if found is not None:
            at, value = f"exchanges[{index}].{found[0]}", found[1]
            yield _exchange_break("usage-adds-up", at, value, scenario, observation, (exchange, answer))


def frees_after_disconnect(scenario: ServeScenario, observation: Serve) -> Iterator[Broken]:
    """Once every client has ended or left, nothing runs, nothing waits and no block is held."""
    after = observation.after
    if after is None:
        return
    for name in msgspec.structs.fields(after):
        value = getattr(after, name.name)
        if value:
            at = f"after.{name.name}"
            yield _whole_break("frees-after-disconnect", at, value, "after", scenario, observation)
            return


def _is_whole_stream(answer: Answer) -> bool:
    return answer.ending == "answered" and answer.status == 200 and answer.stream is not None


def _malformed(answer: Answer) -> tuple[str, Json] | None:
    """Where in the stream it is not as it has to be, and what is there."""
    stream = answer.stream
    assert stream is not None, "only streams are asked"
    frames = [entry for entry in stream.rest if not _is_passed_over(entry)]
    for entry in frames:
        if entry not in (DONE, CHOICES) and (not isinstance(entry, dict) or "partial" in entry):
            return "rest", entry
    if frames.count(DONE) != 1 or frames[-1] != DONE:
        is_last = DONE not in frames or frames[-1] == DONE
        return "rest", f"{frames.count(DONE)} x {DONE}" + ("" if is_last else ", not at the end")
    if any(isinstance(entry, dict) and "error" in entry for entry in frames):
        return None
    for index, choice in enumerate(stream.choices):
        if choice.kinds.count("finish") != 1 or choice.kinds[-1] != "finish":
            return f"choices[{index}].kinds", choice.kinds
    return None


def _is_passed_over(entry: Json) -> bool:
    """A comment, which has no meaning, and a remark of the player's on the bytes."""
    if isinstance(entry, str):
        return entry.startswith(":")
    return isinstance(entry, dict) and set(entry) == {"oddity"}


def _exchanges(scenario: ServeScenario, observation: Serve) -> Iterator[tuple[int, Exchange, Answer]]:
    """Each exchange with its place and what came of it; both are in the script's order."""
    pairs = zip(scenario.exchanges, observation.exchanges, strict=True)
    yield from ((index, exchange, answer) for index, (exchange, answer) in enumerate(pairs))


def _exchange_break(
    name: str,
    at: str,
    value: Json,
    scenario: ServeScenario,
    observation: Serve,
    pair: tuple[Exchange, Answer],
) -> Broken:
    exchange, answer = pair
    return Broken(
        property=name,
        at=at,
        value=value,
        event=serve_shapes.exchange_event(answer),
        kind="broken",
        role=serve_shapes.role_of(exchange),
        events=serve_shapes.events_until(scenario, observation, exchange.id),
    )


def _whole_break(
    name: str, at: str, value: Json, event: str, scenario: ServeScenario, observation: Serve
) -> Broken:
    return Broken(
        property=name,
        at=at,
        value=value,
        event=event,
        kind="broken",
        role=serve_shapes.NONE,
        events=serve_shapes.events_until(scenario, observation, None),
    )


CHECKS: dict[str, Check] = {
    "answers": answers,
    "exits-on-signal": exits_on_signal,
    "health-tells-the-truth": health_tells_the_truth,
    "stream-is-well-formed": stream_is_well_formed,
    "usage-adds-up": usage_adds_up,
    "frees-after-disconnect": frees_after_disconnect,
}
