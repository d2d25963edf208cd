"""What an exchange and a served script looked like, without their values: the vocabulary of fingerprints at level serve.

Roles say which endpoint was asked, events what the script did until then. Both are small fixed words, so that the
same behaviour in another scenario, with other ids and bodies, reads the same.
"""

from __future__ import annotations

from parity.observation import Answer, Ended, Serve
from parity.scenario import Action, AtOnce, Await, Exchange, Leave, Open, Send, ServeScenario, Signal

NONE = "-"
ENDPOINTS = {
    "/v1/completions": "completions",
    "/v1/chat/completions": "chat",
    "/v1/models": "models",
    "/metrics": "metrics",
    "/health": "health",
    "/tokenize": "tokenize",
}


def exchange_event(answer: Answer) -> str:
    """`answered:2xx`, `stream:2xx` by the status's class; of an answer that is not whole only how it ended."""
    if answer.ending != "answered" or answer.status is None:
        return answer.ending
    kind = "answered" if answer.stream is None else "stream"
    return f"{kind}:{answer.status // 100}xx"


def end_event(ended: Ended | None) -> str:
    """`end:exited`, `end:alive`, or nothing where nobody waited for an end."""
    return NONE if ended is None else f"end:{ended.state}"


def role_of(exchange: Exchange) -> str:
    """The endpoint that was asked: `completions`, `chat`, `models`, `metrics`, `health`, `tokenize` or `other`."""
    return ENDPOINTS.get(exchange.path.partition("?")[0], "other")


def events_until(scenario: ServeScenario, observation: Serve, exchange: str | None) -> tuple[str, ...]:
    """What happened until this exchange was over, or in the whole script: disconnect, signal, preempt.

    An exchange that was opened is over where its end is awaited, or with the script. The preemption counter is
    read once for the whole script.
    """
    happened = {
        "disconnect": any(_leaves(action) for action in _until(scenario, exchange)),
        "signal": any(isinstance(action, Signal) for action in _until(scenario, exchange)),
        "preempt": observation.preempted,
    }
    return tuple(name for name, is_so in happened.items() if is_so)


def signalled_before(scenario: ServeScenario, exchange: str) -> bool:
    """Whether the script sends a signal before it starts this exchange."""
    for action in scenario.script:
        if isinstance(action, Signal):
            return True
        if _starts(action, exchange):
            return False
    return False


def _until(scenario: ServeScenario, exchange: str | None) -> list[Action]:
    """The actions up to the one with which the exchange is over, that one included."""
    for index, action in enumerate(scenario.script):
        ends_here = isinstance(action, Await) and action.what == "end" and action.id == exchange
        ends_here |= isinstance(action, Leave) and action.id == exchange
        ends_here |= isinstance(action, (Send, AtOnce)) and _starts(action, exchange)
        if ends_here:
            return scenario.script[: index + 1]
    return scenario.script


def _started(action: Action) -> list[Exchange]:
    if isinstance(action, (Send, Open)):
        return [action.exchange]
    return action.exchanges if isinstance(action, AtOnce) else []


def _starts(action: Action, exchange: str | None) -> bool:
    return any(item.id == exchange for item in _started(action))


def _leaves(action: Action) -> bool:
    return isinstance(action, Leave) or any(item.leave_after is not None for item in _started(action))
