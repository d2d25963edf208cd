"""The outcomes that the public reports 1 to 29 came to on real upstream, held against a live oracle.

The numbers were measured apart from this code; steps count from 0. The reports' links are in the scenarios.
"""

from __future__ import annotations

from typing import Any

import pytest

from parity.scenario import Case
from tests.parity.conftest import PlayOracle
from tests.parity.facts import FACTS

pytestmark = pytest.mark.oracle

Row = tuple[int, str, dict[str, Any]]

TOO_SMALL = "kv-cache-too-small"

PLANS: list[Row] = [
    (1, "block-count/bytes-exact/four-blocks", {"kind": "ok", "blocks": 4, "usable": 3}),
    (1, "block-count/bytes-exact/four-blocks-less-a-byte", {"kind": TOO_SMALL, "estimate": 48}),
    (1, "block-count/bytes-exact/five-blocks", {"kind": "ok", "blocks": 5}),
    (2, "auto-fit/one-block-high/block-16", {"length": 128, "blocks": 8, "usable": 7}),
    (2, "auto-fit/one-block-high/block-128", {"length": 1024, "blocks": 8, "usable": 7}),
    (3, "block-count/four-gib/len-40960", {"kind": TOO_SMALL, "estimate": 37376}),
    (3, "block-count/four-gib/len-37376", {"kind": "ok", "blocks": 292}),
    (3, "block-count/four-gib/len-auto", {"length": 37376, "blocks": 292}),
    (5, "block-count/labels/4-64", {"label": "1.00x", "tokens": 64}),
    (5, "block-count/labels/4-50", {"label": "1.00x", "tokens": 50}),
    (5, "block-count/labels/4-33", {"label": "1.33x", "tokens": 44}),
    (5, "block-count/labels/4-48", {"label": "1.33x", "tokens": 64}),
    (5, "block-count/labels/10-100", {"label": "1.43x", "tokens": 142}),
    (5, "block-count/labels/15-165", {"label": "1.36x", "tokens": 224}),
    (5, "block-count/labels/17-98", {"label": "2.43x", "tokens": 237}),
    (6, "auto-fit/override-above-budget/override-12", {"length": 192, "blocks": 12, "usable": 11}),
    (7, "block-count/explicit-around-override/len-64", {"kind": "ok", "blocks": 4}),
    (7, "block-count/explicit-around-override/len-65", {"kind": TOO_SMALL, "estimate": 64}),
    (8, "block-count/batching-limits/8-16-64", {"kind": "batched-tokens-below-max-num-seqs"}),
    (
        8,
        "block-count/batching-limits/200-2-64",
        {"kind": "ok", "warnings": ["batched-tokens-exceed-seqs-times-len"]},
    ),
    (8, "block-count/batching-limits/16-16-64", {"kind": "ok", "warnings": []}),
    (8, "block-count/batching-limits/128-2-64", {"kind": "ok", "warnings": []}),
    (21, "block-count/threshold/65-64", {"kind": "long-prefill-threshold-above-max-model-len"}),
]

CAPACITY: list[Row] = [
    (
        1,
        "admission/bytes-exact/blocks-4-40-24",
        {"kind": "stall", "outputs": {"r0": 9}, "preempted": [(9, "r0")]},
    ),
    (1, "admission/bytes-exact/blocks-4-63-1", {"kind": "stall", "started": {}, "preempted": []}),
    (1, "admission/bytes-exact/blocks-5-40-24", {"kind": "done", "outputs": {"r0": 24}}),
    (1, "admission/bytes-exact/blocks-5-63-1", {"kind": "done", "outputs": {"r0": 1}}),
    (2, "auto-fit/advertised-length/127-1", {"kind": "stall", "started": {}}),
    (
        2,
        "auto-fit/advertised-length/112-16",
        {"kind": "stall", "outputs": {"r0": 1}, "preempted": [(1, "r0")]},
    ),
    (
        2,
        "auto-fit/advertised-length/64-64",
        {"kind": "stall", "outputs": {"r0": 49}, "preempted": [(49, "r0")]},
    ),
    (
        6,
        "auto-fit/override-blocks-exist",
        {"kind": "done", "first blocks": {"r0": list(range(1, 12))}},
    ),
    (10, "admission/decode-wall/40-9", {"kind": "done", "outputs": {"r0": 9}}),
    (
        10,
        "admission/decode-wall/40-10",
        {"kind": "stall", "outputs": {"r0": 9}, "preempted": [(9, "r0")]},
    ),
    (10, "admission/decode-wall/48-1", {"kind": "done", "outputs": {"r0": 1}}),
    (10, "admission/decode-wall/49-1", {"kind": "stall", "started": {}, "preempted": []}),
    (11, "admission/head-of-line", {"started": {"a": 0, "b": 8, "c": 8}}),
    (
        11,
        "admission/head-of-line-cached",
        {"started": {"a": 0, "b": 1, "c": 1}, "cached": [("a", 0), ("b", 48), ("c", 0)]},
    ),
    (12, "admission/full-length-reserve/on", {"started": {"r": 0, "l": 44}, "steps": 52, "preempted": []}),
    (19, "serving/last-slot/len-16-15-1", {"outputs": {"r0": 1}, "finished": {"r0": (0, "length")}}),
    (19, "serving/last-slot/len-16-15-5", {"outputs": {"r0": 1}, "finished": {"r0": (0, "length")}}),
    (19, "serving/last-slot/len-64-48-16", {"outputs": {"r0": 16}, "finished": {"r0": (15, "length")}}),
    (19, "serving/last-slot/len-64-48-40", {"outputs": {"r0": 16}, "finished": {"r0": (15, "length")}}),
]

PREEMPTION: list[Row] = [
    (
        13,
        "preemption/two-outgrow-pool/blocks-7",
        {
            "preempted": [(15, "younger")],
            "resumed": [(35, "younger")],
            "cached": [("older", 0), ("younger", 0), ("younger", 16)],
            "first blocks": {"older": [1, 2, 3], "younger": [4, 5, 6, 3]},
        },
    ),
    (13, "preemption/two-outgrow-pool/blocks-10", {"preempted": [(31, "younger")]}),
    (13, "preemption/two-outgrow-pool/blocks-11", {"preempted": [], "kind": "done"}),
    (15, "preemption/freed-blocks-same-step", {"preempted": [(15, "younger")], "kind": "done"}),
    (
        16,
        "preemption/eight-on-five-blocks",
        {"kind": "done", "steps": 54, "empty steps": 0, "outputs": {f"r{index}": 16 for index in range(8)}},
    ),
    (
        17,
        "admission/max-num-seqs/seats-2",
        {
            "started": {"r0": 0, "r1": 0, "r2": 6},
            "finished": {"r0": (5, "length"), "r1": (8, "length"), "r2": (8, "length")},
        },
    ),
    (
        20,
        "preemption/equal-priority-order/priority",
        {"preempted": [(3, "a")], "waiting after the first preemption": ["b", "a"]},
    ),
    (
        20,
        "preemption/equal-priority-order/fcfs",
        {"preempted": [(3, "a")], "waiting after the first preemption": ["a", "b"]},
    ),
    (
        20,
        "preemption/priority-does-not-evict-for-a-seat",
        {"preempted": [], "started": {"r0": 0, "r1": 0, "urgent": 6}},
    ),
    (28, "preemption/two-decoding-bound/120-20-with-50-20-on-15", {"preempted": []}),
    (28, "preemption/two-decoding-bound/120-20-with-50-20-on-14", {"preempted": [(15, "r1")]}),
    (29, "preemption/livelock", {"kind": "livelock", "outputs": {"r0": 0}, "period": 5}),
]

CHUNKS_AND_CACHE: list[Row] = [
    (14, "chunking/long-prompt-first/threshold-0", {"started": {"long": 0, "small": 10}}),
    (14, "chunking/long-prompt-first/threshold-8", {"started": {"long": 0, "small": 1}}),
    (21, "chunking/threshold-without-chunking", {"chunks": [16, 16, 8, 1, 1]}),
    *(
        (22, f"caching/same-prompt/len-{length}-{moment}", {"cached": [("first", 0), ("second", hit)]})
        for length, hit in ((15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (48, 32))
        for moment in ("same-step", "beside", "later")
    ),
    (
        23,
        "caching/prompt-logprobs",
        {
            "cached": [("warm", 0), ("plain", 32), ("logprobs", 0), ("again", 32)],
            "first blocks": {
                "warm": [1, 2, 3],
                "plain": [1, 2, 3],
                "logprobs": [3, 4, 5],
                "again": [1, 2, 5],
            },
        },
    ),
    (
        24,
        "caching/evicted-by-larger",
        {
            "cached": [("x", 0), ("y", 0), ("again", 0)],
            "first blocks": {"x": [1, 2, 3], "y": [4, 3, 2, 1], "again": [1, 2, 3]},
        },
    ),
    (25, "caching/free-order/on-1", {"first blocks": {"first": [1, 2, 3], "next": [3, 4, 5, 6, 7, 2, 1]}}),
    (25, "caching/free-order/on-9", {"first blocks": {"first": [1, 2, 3], "next": [4, 5, 6, 7, 3, 2, 1]}}),
    (25, "caching/free-order/off-1", {"first blocks": {"first": [1, 2, 3], "next": [4, 5, 6, 7, 3, 2, 1]}}),
    *(
        (26, f"caching/second-turn/{prompt}-{out}", {"cached": [("first", 0), ("second", hit)]})
        for prompt, out, hit in ((20, 30, 48), (34, 15, 48), (34, 14, 32), (16, 16, 16))
    ),
    (27, "serving/abort-waiting/before-schedule", {"aborted": [("r1", 1)], "free at the end": 5}),
    (
        27,
        "serving/abort-preempted/a-step-later-before-schedule",
        {"aborted": [("younger", 2)], "free at the end": 6},
    ),
    (27, "serving/abort-running/in-decode-before-schedule", {"aborted": [("r0", 14)], "free at the end": 15}),
    (
        27,
        "serving/abort-final-step/before-update",
        {"aborted late": [("r0", 5)], "finished": {}, "outputs": {"r0": 3}, "free at the end": 5},
    ),
]

ROWS = [*PLANS, *CAPACITY, *PREEMPTION, *CHUNKS_AND_CACHE]

PROPERTIES = {4, 9, 18, 25, 28}
"""Reports that are promises over many points; the tests below hold them."""


@pytest.mark.parametrize(("item", "id_", "facts"), ROWS, ids=[f"{item}-{id_}" for item, id_, _ in ROWS])
def test_a_report_comes_out_as_it_was_measured(
    suite: list[Case], play_oracle: PlayOracle, item: int, id_: str, facts: dict[str, Any]
) -> None:
    assert 1 <= item <= 29
    seen = play_oracle(next(case for case in suite if case.id == id_))

    assert {name: FACTS[name](seen) for name in facts} == facts


def test_every_report_has_a_row_or_a_property() -> None:
    assert {item for item, _, _ in ROWS} | PROPERTIES == set(range(1, 30))


def below(suite: list[Case], *prefixes: str) -> list[Case]:
    cases = [case for case in suite if case.id.startswith(prefixes)]
    assert cases
    return cases


def test_4_an_estimate_is_a_multiple_of_the_block_and_a_fixpoint(
    suite: list[Case], play_oracle: PlayOracle
) -> None:
    cases = below(suite, "block-count/estimate-is-a-fixpoint/", "block-count/boundary/")
    seen = [(case.scenario.config, play_oracle(case)) for case in cases]
    refused = [(config, FACTS["estimate"](plan)) for config, plan in seen if FACTS["kind"](plan) == TOO_SMALL]
    started = {
        (config.num_blocks, config.kv_cache_memory_bytes // 16384, config.max_model_len)
        for config, plan in seen
        if FACTS["kind"](plan) == "ok"
    }

    assert len(refused) > 20
    for config, estimate in refused:
        assert isinstance(config.max_model_len, int)
        assert estimate % config.block_size == 0
        assert estimate < config.max_model_len
        assert (config.num_blocks, config.kv_cache_memory_bytes // 16384, estimate) in started


def test_4_a_fitted_length_is_a_multiple_of_the_block_or_the_model_s_limit(
    suite: list[Case], play_oracle: PlayOracle
) -> None:
    for case in below(suite, "auto-fit/multiple-of-block/", "auto-fit/by-bytes/"):
        config = case.scenario.config
        seen = play_oracle(case)

        assert FACTS["length"](seen) == min(
            config.model.max_position, FACTS["blocks"](seen) * config.block_size
        )


def test_9_the_length_leaves_the_block_count_of_a_byte_budget_alone(
    suite: list[Case], play_oracle: PlayOracle
) -> None:
    cases = below(suite, "block-count/length-leaves-bytes-alone/")

    assert {FACTS["blocks"](play_oracle(case)) for case in cases} == {3000000 // 16384}


def test_12_without_the_full_reserve_a_prompt_preempts_itself_13_times(
    suite: list[Case], play_oracle: PlayOracle
) -> None:
    (case,) = below(suite, "admission/full-length-reserve/off")
    seen = play_oracle(case)

    steps = [step for step, id_ in FACTS["preempted"](seen) if id_ == "l"]
    assert steps[:5] == [8, 12, 16, 20, 23]
    assert len(steps) == len(FACTS["preempted"](seen)) == 13
    assert FACTS["steps"](seen) == 52


def test_15_the_freed_block_changes_hands_in_the_step_of_the_preemption(
    suite: list[Case], play_oracle: PlayOracle
) -> None:
    for case in below(suite, "preemption/two-outgrow-pool/blocks-7", "preemption/freed-blocks-same-step"):
        seen = play_oracle(case)
        before, after = seen.steps[14], seen.steps[15]  # type: ignore[union-attr]

        assert dict(before.blocks)["younger"] == [4, 5, 6]
        assert dict(after.blocks) == {"older": [1, 2, 3, 6]}


def test_16_five_preemptions_in_two_steps(suite: list[Case], play_oracle: PlayOracle) -> None:
    (case,) = below(suite, "preemption/eight-on-five-blocks")

    assert sorted(FACTS["preempted"](play_oracle(case))) == [
        (5, "r2"),
        (5, "r3"),
        (5, "r4"),
        (32, "r6"),
        (32, "r7"),
    ]


def test_18_a_request_alone_takes_its_prompt_s_chunks_and_then_a_step_a_token(
    suite: list[Case], play_oracle: PlayOracle
) -> None:
    for case in below(suite, "chunking/steps-alone/"):
        config, timeline = case.scenario.config, case.scenario.timeline
        assert timeline is not None
        prompt, out = len(timeline.requests[0].prompt), timeline.requests[0].max_tokens
        seen = play_oracle(case)

        assert FACTS["steps"](seen) == -(-prompt // config.max_num_batched_tokens) + out - 1
        slots = 0
        for step in seen.steps:  # type: ignore[union-attr]
            slots += step.scheduled[0][1]
            held = len(step.blocks[0][1])
            assert held == -(-slots // config.block_size)


def test_25_every_block_is_free_referenced_or_null_after_every_step(
    suite: list[Case], play_oracle: PlayOracle
) -> None:
    for case in below(suite, "caching/free-order/", "caching/second-turn/", "preemption/two-outgrow-pool/"):
        seen = play_oracle(case)
        for step in seen.steps:  # type: ignore[union-attr]
            referenced = {block for _, table in step.blocks for block in table}
            assert step.free + len(referenced) + 1 == case.scenario.config.num_blocks


def test_27_aborts_give_every_block_back(suite: list[Case], play_oracle: PlayOracle) -> None:
    for case in below(suite, "serving/abort-"):
        assert case.scenario.config.num_blocks is not None
        seen = play_oracle(case)

        assert FACTS["kind"](seen) == "done"
        assert FACTS["free at the end"](seen) == case.scenario.config.num_blocks - 1


def test_28_enough_blocks_for_both_at_their_longest_never_preempt(
    suite: list[Case], play_oracle: PlayOracle
) -> None:
    verdicts = set()
    for case in below(suite, "preemption/two-decoding-bound/"):
        config, timeline = case.scenario.config, case.scenario.timeline
        assert timeline is not None
        assert config.num_blocks is not None
        need = 1 + sum(
            -(-(len(request.prompt) + request.max_tokens - 1) // config.block_size)
            for request in timeline.requests
        )
        preempted = bool(FACTS["preempted"](play_oracle(case)))

        verdicts.add((config.num_blocks >= need, preempted))
    assert (True, True) not in verdicts
    assert {(True, False), (False, True)} <= verdicts
