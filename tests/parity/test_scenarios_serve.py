"""Facts about the committed scenarios of level serve: the case, the fields, and how many servers they cost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.scenario import AtOnce, Await, Case, Exit, Pause, ServeScenario, Signal, Until

MOST_CONFIGURATIONS = 7  # each costs a start of both servers
SWEEPS = {
    "/v1/completions": "serving/completions-fields/",
    "/v1/chat/completions": "serving/chat-fields/",
}

# The public reports that are restated at this level, by their number in the project's list of them.
REPORTS = {
    30: ("serving/does-not-fit", "serving/over-long-max-tokens"),
    31: ("serving/max-tokens-zero-and-null", "serving/length-boundary", "serving/chat-length-boundary"),
    32: ("serving/logprobs-range", "serving/chat-logprobs"),
    33: ("serving/odd-prompts",),
    34: ("serving/odd-sampling",),
    35: ("serving/stream-usage",),
    36: ("serving/more-choices-than-seats",),
    37: ("serving/streams-end-once",),
    38: (
        "shutdown/sigterm-idle",
        "shutdown/sigterm-while-decoding",
        "shutdown/sigterm-while-stuck",
        "shutdown/two-sigterms-while-stuck",
    ),
    39: ("serving/stuck-is-observable", "serving/small-behind-stuck"),
    40: ("serving/stop-token-and-string",),
    41: (
        "serving/unknown-model",
        "serving/routes/unknown",
        "serving/bodies",
        "serving/no-content-type",
        "serving/four-megabytes",
    ),
}


@pytest.fixture(scope="module")
def served(suite: list[Case]) -> dict[str, ServeScenario]:
    return {case.id: case.scenario for case in suite if isinstance(case.scenario, ServeScenario)}


def body(scenario: ServeScenario, exchange: str) -> dict[str, Any]:
    (content,) = (one.content for one in scenario.exchanges if one.id == exchange)
    assert content is not None
    value: dict[str, Any] = json.loads(content)
    return value


@pytest.mark.parametrize("number", REPORTS)
def test_every_report_of_this_level_is_a_scenario(served: dict[str, ServeScenario], number: int) -> None:
    for name in REPORTS[number]:
        assert [id_ for id_ in served if id_ == name or id_.startswith(name + "/")], name


def test_there_are_at_least_80_scenarios_beside_the_fields(served: dict[str, ServeScenario]) -> None:
    beside = [id_ for id_ in served if not id_.startswith(tuple(SWEEPS.values()))]

    assert len(beside) >= 80
    assert {id_.split("/")[0] for id_ in beside} == {"serving", "shutdown", "numerics"}


@pytest.mark.parametrize("path", SWEEPS)
def test_every_field_of_an_endpoint_is_swept_over_more_than_one_value(
    root: Path, served: dict[str, ServeScenario], path: str
) -> None:
    fields = json.loads((root / "engine/server/fields.json").read_text("utf-8"))[path]
    points = [scenario for id_, scenario in served.items() if id_.startswith(SWEEPS[path])]
    given: dict[str, set[str]] = {}
    for scenario in points:
        assert [exchange.path for exchange in scenario.exchanges] == [path]
        for name, value in body(scenario, "asked").items():
            given.setdefault(name, set()).add(json.dumps(value))

    assert len(points) >= 150
    assert fields.keys() <= given.keys()
    assert [name for name in fields if len(given[name]) < 2] == []


def test_scenarios_share_a_handful_of_servers(served: dict[str, ServeScenario]) -> None:
    configurations = {msgspec.json.encode(scenario.config) for scenario in served.values()}

    assert len(configurations) <= MOST_CONFIGURATIONS
    assert [id_ for id_, scenario in served.items() if scenario.fresh] == []


def test_a_configuration_is_written_alike_wherever_it_is_used(root: Path, suite: list[Case]) -> None:
    texts: dict[bytes, set[str]] = {}
    for case in suite:
        if isinstance(case.scenario, ServeScenario):
            text = (root / case.path).read_text("utf-8")
            (line,) = re.findall(r"^config: .*$", text, flags=re.MULTILINE)
            texts.setdefault(msgspec.json.encode(case.scenario.config), set()).add(line)

    assert [lines for lines in texts.values() if len(lines) > 1] == []


def test_the_case_is_there_as_it_was_reported(served: dict[str, ServeScenario]) -> None:
    wedge, control = served["serving/null-block-wedge"], served["serving/null-block-control"]
    over_long = served["serving/over-long-max-tokens/completion-5000"]

    for scenario, blocks, name, tokens in ((wedge, 4, "stuck", 56), (control, 64, "asked", 16)):
        assert (scenario.config.num_blocks, scenario.config.block_size) == (blocks, 16)
        sent = body(scenario, name)
        assert (len(sent["prompt"]), sent["max_tokens"]) == (8, tokens)
    assert wedge.config.max_model_len == "auto"
    assert wedge.script[1:3] == [Pause(0.5), Until(running=0, waiting=1, within=5.0)]
    assert [exchange.path for exchange in wedge.exchanges] == ["/v1/completions", "/health", "/metrics"]
    assert (over_long.config.num_blocks, over_long.config.max_model_len) == (8, 64)
    assert (len(body(over_long, "asked")["prompt"]), body(over_long, "asked")["max_tokens"]) == (6, 5000)


@pytest.mark.parametrize(
    ("name", "signals", "open_clients"),
    [
        ("sigterm-idle", 1, 0),
        ("sigterm-while-decoding", 1, 1),
        ("sigterm-while-stuck", 1, 1),
        ("two-sigterms-while-stuck", 2, 1),
    ],
)
def test_every_end_is_waited_for_and_what_is_open_outlasts_the_wait(
    suite: list[Case], name: str, signals: int, open_clients: int
) -> None:
    (case,) = (case for case in suite if case.id == f"shutdown/{name}")
    assert isinstance(case.scenario, ServeScenario)
    script = case.scenario.script

    assert sum(isinstance(action, Signal) for action in script) == signals
    assert isinstance(script[-1], Exit)
    deadlines = [exchange.deadline for exchange in case.scenario.exchanges if exchange.method == "POST"]
    assert len(deadlines) == open_clients
    assert all(deadline is not None and deadline > script[-1].within for deadline in deadlines)


def test_what_waits_until_a_request_is_stuck_first_lets_it_run(served: dict[str, ServeScenario]) -> None:
    """Right after it was sent a request is waiting with nothing running, as a stuck one is."""
    seen = 0
    for id_, scenario in served.items():
        for before, action in zip(scenario.script, scenario.script[1:], strict=False):
            if action == Until(running=0, waiting=1, within=getattr(action, "within", 0.0)):
                seen += 1
                assert isinstance(before, Pause | Await), id_

    assert seen > 10


def test_real_text_is_compared_with_two_alternatives_a_token(served: dict[str, ServeScenario]) -> None:
    texts = [scenario for id_, scenario in served.items() if id_.startswith("numerics/")]

    for scenario in texts:
        assert scenario.config.dtype == "float32"
        for exchange in scenario.exchanges:
            sent = json.loads(exchange.content or "{}")
            assert 2 in (sent.get("logprobs"), sent.get("top_logprobs"))
    at_once = [action for scenario in texts for action in scenario.script if isinstance(action, AtOnce)]
    assert sum(len(action.exchanges) == 20 for action in at_once) == 4
