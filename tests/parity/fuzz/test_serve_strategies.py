"""What holds of every script that is drawn: it may stand in a file, and nothing in it makes its answers a matter of chance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from parity.fuzz.document import Document, case_from
from parity.fuzz.drawing.hand import ROLL, Hand
from parity.fuzz.drawing.serve import SERVERS, draw_serve
from parity.fuzz.drawing.serve_bodies import VOCABULARY
from parity.fuzz.drawing.serve_fields import GROUPS, REFUSED
from parity.scenario import ServeScenario
from parity.serve.models import served_model

COUNT = 1500
BLOCK = 16
SLACK = 3  # blocks that no text or conversation and its answer need more than


class Chosen:
    """Choices of a generator of random numbers."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def number(self, count: int) -> int:
        return int(self._random.random() * count)

    def rolls(self, count: int) -> tuple[int, ...]:
        return tuple(self.number(ROLL) for _ in range(count))


class Simplest:
    """The first choice of everything."""

    def number(self, count: int) -> int:
        assert count > 1
        return 0

    def rolls(self, count: int) -> tuple[int, ...]:
        return (0,) * count


def drawn(seed: str, count: int = COUNT) -> list[Document]:
    hand = Hand(Chosen(seed))
    return [draw_serve(hand) for _ in range(count)]


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return drawn("any")


def exchanges(action: dict[str, Any]) -> list[dict[str, Any]]:
    return [*action.get("at_once", ()), *(action[key] for key in ("send", "open") if key in action)]


def bodies(documents: list[Document]) -> Iterator[dict[str, Any]]:
    for document in documents:
        for action in document["script"]:
            for exchange in exchanges(action):
                if exchange["path"] in GROUPS and isinstance(exchange.get("body"), dict):
                    yield exchange["body"]


def test_every_document_is_one_that_a_scenario_file_may_hold(documents: list[Document]) -> None:
    for document in documents:
        scenario = case_from(document).scenario

        assert isinstance(scenario, ServeScenario)
        assert 1 <= len(scenario.exchanges) <= 16
        assert not scenario.ends_server
        assert document["config"] in SERVERS


def test_a_document_is_the_same_after_a_way_through_a_file(documents: list[Document]) -> None:
    for document in documents:
        assert msgspec.json.decode(msgspec.json.encode(document)) == document


def test_a_seed_alone_decides_what_is_drawn() -> None:
    assert drawn("seven", 50) == drawn("seven", 50)
    assert drawn("seven", 50) != drawn("eight", 50)


def test_the_first_of_all_choices_is_one_plain_request() -> None:
    document = draw_serve(Hand(Simplest()))

    assert document["config"] == SERVERS[0]
    assert [list(action) for action in document["script"]] == [["send"]]


def test_a_script_may_be_drawn_for_one_server_alone() -> None:
    hand = Hand(Chosen("one"))

    assert all(draw_serve(hand, [config])["config"] == config for config in SERVERS for _ in range(50))


def test_whoever_draws_has_a_seed_or_no_choice(documents: list[Document]) -> None:
    """Upstream's own draws are a matter of chance; what it makes of a temperature that is none, or of a seed of -1, is not known."""
    for body in bodies(documents):
        is_greedy = body.get("temperature") == 0 and not isinstance(body["temperature"], bool)
        has_seed = type(body.get("seed")) is int and body["seed"] >= 0
        assert is_greedy or has_seed or body.get("top_k") == 1, body


def test_of_several_at_once_all_have_a_seed_or_none_has(documents: list[Document]) -> None:
    for document in documents:
        for action in document["script"]:
            found = [exchange["body"] for exchange in action.get("at_once", ()) if exchange["path"] in GROUPS]
            assert len({body.get("temperature") == 0 for body in found}) < 2, action


def blocks_needed(body: dict[str, Any]) -> int:
    """Blocks that the choices of a body need together at most."""
    asked = body.get("max_tokens", body.get("max_completion_tokens"))
    assert isinstance(asked, int)
    prompt = body.get("prompt", "")
    needed = 0
    for part in prompt if isinstance(prompt, list) else [prompt]:
        tokens = part["$ids"] + asked if isinstance(part, dict) else SLACK * BLOCK
        needed += -(-tokens // BLOCK)
    return needed * int(body.get("n", 1))


def test_what_runs_at_once_fits_into_the_pool(documents: list[Document]) -> None:
    """Who preempts whom would else depend on which request came first. Conversations are held to their own share."""
    for document in documents:
        usable = document["config"]["num_blocks"] - 1
        for action in document["script"]:
            found = [exchange["body"] for exchange in action.get("at_once", ()) if exchange["path"] in GROUPS]
            assert sum(blocks_needed(body) for body in found if "prompt" in body) <= usable, action


def test_a_crowd_cannot_but_preempt(documents: list[Document]) -> None:
    """Each starts with 3 of 7 blocks and needs a fourth before its sixth token, while the others have ten to go."""
    crowds = [
        body
        for document in documents
        if document["config"] == SERVERS[1]
        for body in bodies([document])
        if isinstance(body.get("prompt"), list)
        and all(isinstance(part, dict) and part["$ids"] > 43 for part in body["prompt"])
        and body.get("max_tokens") == BLOCK
        and len(body["prompt"]) > 1
    ]

    assert len(crowds) > 20
    for body in crowds:
        lengths = [part["$ids"] for part in body["prompt"]]
        assert all(2 * BLOCK < length < 3 * BLOCK and length + 6 > 3 * BLOCK for length in lengths)
        assert body["ignore_eos"] is True
        assert body.get("n", 1) == 1
        assert not {"stop", "stop_token_ids", "cache_salt", "truncate_prompt_tokens"} & body.keys()


def test_nothing_ends_upstream(documents: list[Document]) -> None:
    """A stop id beyond the vocabulary, together with min_tokens, is an index that its worker fails on."""
    for body in bodies(documents):
        stops = body.get("stop_token_ids")
        if body.get("min_tokens") and isinstance(stops, list):
            assert all(-VOCABULARY <= stop < VOCABULARY for stop in stops if isinstance(stop, int)), body
    assert served_model(SERVERS[0]["model"]).end_id <= VOCABULARY


def test_a_recorded_difference_stands_alone(documents: list[Document]) -> None:
    """It would hide what is behind it, and what is before it would be part of its shape."""
    keys = {key for refused in REFUSED for key in refused} - {"logprobs"}
    found = 0
    for document in documents:
        asked = [exchange for action in document["script"] for exchange in exchanges(action)]
        bodies = [exchange["body"] for exchange in asked if isinstance(exchange.get("body"), dict)]
        if any(keys & body.keys() for body in bodies) or any(item["path"] == "/v1/models" for item in asked):
            assert len(asked) == 1
            found += 1
    assert 0.02 < found / COUNT < 0.08


def test_every_key_and_every_kind_of_mistake_is_drawn(documents: list[Document]) -> None:
    text = json.dumps(documents)
    drawn_keys = {key for body in bodies(documents) for key in body}

    assert {key for groups in GROUPS.values() for group in groups.values() for key in group} <= drawn_keys
    for word in ("at_once", "leave_after", "raw", "18446744073709551616", "ud800", "/metrics", "/detokenize"):
        assert word in text
