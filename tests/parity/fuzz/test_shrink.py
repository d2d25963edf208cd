"""Shrinking: smaller only, nothing asked twice, the same every time, and small enough to be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parity.engine_side import EngineSide
from parity.fuzz.document import Document, case_from
from parity.fuzz.edits import lengths, tidied, without_requests
from parity.fuzz.examine import Examiner, always
from parity.fuzz.shrink import Shrunk, shrink
from parity.fuzz.size import as_key, size
from parity.scenario import Scenario
from tests.parity.fuzz.planted import Plant, admission, free_order, planted, timeline

Keeps = Callable[[Document], bool]


def prompts(document: Document) -> list[list[int]]:
    scenario = case_from(document).scenario
    assert isinstance(scenario, Scenario)
    assert scenario.timeline is not None
    return [request.prompt for request in scenario.timeline.requests]


def small_pool(document: Document) -> bool:
    return document["config"].get("num_blocks", 99) <= 9


def outgrows(document: Document) -> bool:
    """A small pool, and a request of more than 48 tokens."""
    return small_pool(document) and any(sum(pair) > 48 for pair in lengths(document).values())


def shares(document: Document) -> bool:
    """A small pool, and two requests that begin with the same eight tokens."""
    heads = [prompt[:8] for prompt in prompts(document) if len(prompt) >= 8]
    return small_pool(document) and len({tuple(head) for head in heads}) < len(heads)


def example() -> Document:
    return {
        "level": "schedule",
        "title": "Drawn",
        "config": {
            "model": "opt-125m",
            "num_blocks": 9,
            "block_size": 16,
            "max_num_seqs": 4,
            "watermark": 0.05,
        },
        "requests": [
            {"id": "a", "at": 3, "prompt": 24, "max_tokens": 9, "priority": 4},
            {"id": "b", "at": 5, "prompt": [{"of": "a"}, {"new": 7}], "max_tokens": 30, "min_tokens": 4},
            {"id": "c", "at": 5, "prompt": [{"of": "a"}, {"new": 3}], "max_tokens": 5, "cache_salt": "x"},
            {"id": "d", "at": 9, "prompt": 40, "max_tokens": 12, "output": [7, 7, 9]},
        ],
        "aborts": [{"id": "d", "at": 11, "when": "before_update"}],
        "resets": [{"at": 6, "running": True}],
        "max_steps": 90,
    }


def shrunk(document: Document, keeps: Keeps, **options: Any) -> Shrunk:
    return shrink(document, keeps, **({"attempts": 600, "seconds": None} | options))


def test_what_is_left_of_a_sum_and_a_pool_is_one_request_at_the_boundary() -> None:
    done = shrunk(example(), outgrows)

    assert done.document == {
        "level": "schedule",
        "config": {"model": "tiny-opt", "num_blocks": 0},
        "requests": [{"id": "r0", "prompt": 48, "max_tokens": 1}],
    }
    assert done.stopped is None


def test_a_shared_prefix_survives_the_request_that_it_came_from() -> None:
    def of_the_two(document: Document) -> bool:
        ids = {request["id"] for request in document["requests"]}
        return {"b", "c"} <= ids and shares(document)

    done = shrunk(example(), of_the_two)

    assert [request["id"] for request in done.document["requests"]] == ["b", "c"]
    assert done.document["requests"][1]["prompt"] == [{"of": "b"}]


def test_every_question_can_be_played_and_is_asked_once() -> None:
    asked: list[Document] = []

    def keeps(document: Document) -> bool:
        asked.append(document)
        return outgrows(document)

    done = shrunk(example(), keeps)

    keys = [as_key(document) for document in asked]
    assert len(set(keys)) == len(keys) == done.attempts
    assert as_key(example()) not in keys
    for document in asked:
        case_from(document)


def test_the_best_only_gets_smaller_until_requests_are_named_anew() -> None:
    seen: list[Document] = []
    shrunk(example(), outgrows, progress=lambda best, _: seen.append(best))

    sizes = [size(document) for document in seen[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    assert [request["id"] for request in seen[-1]["requests"]] == ["r0"]


def test_the_same_input_gives_the_same_output_whatever_the_order_of_its_keys() -> None:
    turned = dict(reversed(list(example().items())))
    turned["config"] = dict(reversed(list(turned["config"].items())))

    first, second, third = (shrunk(item, shares) for item in (example(), example(), turned))

    assert first == second
    assert first.document == third.document


def test_what_is_smallest_stays_as_it_is() -> None:
    once = shrunk(example(), shares).document

    assert shrunk(once, shares).document == once


def test_the_attempts_are_a_budget_and_what_was_reached_by_then_is_kept() -> None:
    asked: list[Document] = []

    def keeps(document: Document) -> bool:
        asked.append(document)
        return outgrows(document)

    done = shrunk(example(), keeps, attempts=4)

    assert (done.attempts, done.stopped, len(asked)) == (4, "attempts", 4)
    assert outgrows(done.document)
    assert size(done.document) < size(example())


def test_the_time_is_a_net_and_the_result_says_that_it_ended_the_search() -> None:
    done = shrunk(example(), outgrows, seconds=1e-9)

    assert (done.document, done.attempts, done.stopped) == (example(), 0, "time")


def test_what_keeps_raises_ends_the_search() -> None:
    def keeps(_document: Document) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shrunk(example(), keeps)


def test_names_stay_where_another_name_loses_it() -> None:
    done = shrunk(example(), lambda document: document["requests"][0]["id"] == "a")

    assert [request["id"] for request in done.document["requests"]] == ["a"]


def test_a_request_that_goes_takes_its_aborts_and_leaves_lengths() -> None:
    document = example()
    document["requests"].append({"id": "e", "prompt": [5, {"output_of": "d", "take": 2}], "max_tokens": 1})
    before = lengths(document)

    left = without_requests(document, {"a", "d"})

    assert "aborts" not in left
    assert left["requests"][0]["prompt"] == 31
    assert left["requests"][2]["prompt"] == [5, {"new": 2}]
    assert lengths(left) == {id_: before[id_] for id_ in ("b", "c", "e")}


def test_a_document_without_its_defaults_asks_the_same() -> None:
    document = example()
    document["config"] |= {"dtype": "float32", "max_model_len": "auto"}
    document["requests"][0] |= {"min_tokens": 0, "stop_token_ids": [], "seed": None}

    tidy = tidied(document)

    assert case_from(tidy).hash == case_from(document).hash
    assert "dtype" not in tidy["config"]
    assert "block_size" not in tidy["config"]
    assert set(tidy["requests"][0]) == {"id", "at", "prompt", "max_tokens", "priority"}


def test_a_pool_and_what_fills_it_fall_together() -> None:
    """Two full blocks more than the pool has: the pool alone may not shrink, and neither may the prompt."""

    def keeps(document: Document) -> bool:
        blocks = document["config"].get("num_blocks", 99)
        return any(first == 16 * (blocks + 2) for first, _ in lengths(document).values())

    document = {
        "level": "schedule",
        "config": {"model": "tiny-opt", "num_blocks": 9},
        "requests": [{"id": "r0", "prompt": 176, "max_tokens": 1}],
    }

    assert shrunk(document, keeps).document["config"]["num_blocks"] == 0


def test_seats_fall_with_the_requests_that_take_them() -> None:
    def keeps(document: Document) -> bool:
        return len(document["requests"]) == document["config"].get("max_num_seqs", 16) + 1

    document: Document = {"level": "schedule", "config": {"model": "tiny-opt", "max_num_seqs": 5}}
    document["requests"] = [{"id": f"q{index}", "prompt": 3, "max_tokens": 2} for index in range(6)]

    done = shrunk(document, keeps).document

    assert (len(done["requests"]), done["config"]["max_num_seqs"]) == (2, 1)


def test_a_plan_has_its_keys_dropped_and_its_numbers_lowered() -> None:
    document = {
        "level": "plan",
        "config": {"model": "opt-125m", "dtype": "float16", "num_blocks": 40, "max_model_len": 500},
    }

    def keeps(document: Document) -> bool:
        length = document["config"].get("max_model_len")
        return isinstance(length, int) and length > 16 * document["config"].get("num_blocks", 99) - 200

    assert shrunk(document, keeps).document == {
        "level": "plan",
        "config": {"model": "tiny-opt", "num_blocks": 0, "max_model_len": 1},
    }


def test_the_pool_stays_small_and_is_never_left_to_the_default() -> None:
    def keeps(document: Document) -> bool:
        return document["config"].get("num_blocks", 99) > 3 or "kv_cache_memory_bytes" in document["config"]

    both = {"model": "tiny-opt", "num_blocks": 12, "kv_cache_memory_bytes": 1 << 20}
    alone = {"model": "tiny-opt", "kv_cache_memory_bytes": 1 << 20}

    configs = [
        shrunk({"level": "plan", "config": config}, keeps).document["config"] for config in (both, alone)
    ]

    assert configs == [{"model": "tiny-opt", "num_blocks": 4}] * 2


def test_bytes_are_lowered_where_the_number_of_blocks_is_not_what_counts() -> None:
    def keeps(document: Document) -> bool:
        return "num_blocks" not in document["config"] and "kv_cache_memory_bytes" in document["config"]

    config = {"model": "tiny-opt", "kv_cache_memory_bytes": 1 << 20}

    assert shrunk({"level": "plan", "config": config}, keeps).document["config"] == config | {
        "kv_cache_memory_bytes": 0
    }


def script() -> Document:
    body = {"prompt": {"$ids": 40}, "max_tokens": 64, "temperature": 0, "stop": ["one", "two"]}
    return {
        "level": "serve",
        "config": {"model": "tiny-opt", "num_blocks": 4, "block_size": 16},
        "script": [
            {"open": {"id": "first", "path": "/v1/completions", "body": body, "deadline": 6}},
            {"pause": 0.5},
            {"at_once": [{"id": f"h{index}", "path": "/health"} for index in range(4)]},
            {"send": {"id": "other", "path": "/v1/completions", "headers": {"x-a": "b"}, "body": body}},
            {"await": {"id": "first"}},
            {"signal": "TERM"},
            {"exit": {"within": 7}},
        ],
    }


def test_a_script_loses_what_does_not_matter_and_keeps_its_configuration() -> None:
    def keeps(document: Document) -> bool:
        bodies = [
            exchange["body"]
            for action in document["script"]
            for exchange in (action.get("send"), action.get("open"))
            if exchange and isinstance(exchange.get("body"), dict)
        ]
        return any(body.get("max_tokens", 0) > 20 and "o" in "".join(body.get("stop", [])) for body in bodies)

    done = shrunk(script(), keeps)

    assert done.document["config"] == script()["config"]
    (action,) = done.document["script"]
    (exchange,) = action.values()
    assert exchange["body"] == {"max_tokens": 21, "stop": ["o"]}
    assert set(exchange) <= {"id", "path", "body", "deadline"}


def test_a_signal_goes_with_the_end_that_it_brings_about_and_waits_are_left_alone() -> None:
    def keeps(document: Document) -> bool:
        return any("exit" in action for action in document["script"])

    done = shrunk(script(), keeps)

    assert done.document["script"] == [{"signal": "TERM"}, {"exit": {"within": 7}}]


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        (
            {"requests": [{"id": "a", "prompt": 900, "max_tokens": 900}]},
            {"requests": [{"id": "a"}, {"id": "b"}]},
        ),
        ({"config": {"watermark": 0.5}, "requests": [{"at": 1}]}, {"requests": [{"at": 2}]}),
        ({"config": {"num_blocks": 900}}, {"config": {"num_blocks": 2, "block_size": 2}}),
        ({"config": {"num_blocks": 3}}, {"config": {"num_blocks": 4}}),
        (
            {"config": {"model": "tiny-opt", "num_blocks": 9}},
            {"config": {"model": "opt-125m", "num_blocks": 2}},
        ),
        ({"script": [{"send": {"id": "a" * 9}}]}, {"script": [{"pause": 1.0}, {"send": {"id": "a"}}]}),
        ({"script": [{"pause": 1.0}] * 3}, {"script": [{"at_once": [{"id": "a"}, {"id": "b"}]}]}),
    ],
)
def test_what_is_smaller(smaller: Document, larger: Document) -> None:
    assert size(smaller) < size(larger)


def test_only_equal_documents_are_equally_small() -> None:
    assert size({"config": {"model": "tiny-opt", "num_blocks": 3}}) == size(
        {"config": {"num_blocks": 3, "model": "tiny-opt"}}
    )
    assert size({"requests": [{"id": "a"}]}) != size({"requests": [{"id": "b"}]})


@pytest.mark.parametrize(
    ("fault", "seed"), [(free_order, 0), (free_order, 2), (free_order, 5), (admission, 3), (admission, 9)]
)
def test_a_planted_fault_in_eight_requests_is_shown_by_two(fault: Plant, seed: int) -> None:
    examiner = Examiner(always(EngineSide(), planted(fault)), mirrors=True)
    before = timeline(seed)
    finding = next(found for found in examiner.examine(before).findings if found.attribution == "ours")

    done = shrunk(before, lambda document: examiner.look(document).shows(finding.fingerprint))

    assert len(before["requests"]) == 8
    assert len(done.document["requests"]) == 2
    assert done.stopped is None
    assert examiner.look(done.document).shows(finding.fingerprint)
