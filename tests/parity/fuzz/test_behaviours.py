"""Which behaviours an observation shows: by hand for timelines whose arithmetic is plain, and in bulk for what must always hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from engine.driver import observe
from parity.fuzz.behaviours import VOCABULARY, pairs, reached, states
from parity.fuzz.behaviours.follow import follow
from parity.fuzz.document import Document, case_from
from parity.fuzz.search import Search
from parity.observation import Observation, PlanOk, Schedule, Serve, decode
from parity.scenario import Level, Scenario


def played(document: Document) -> tuple[Scenario, Observation]:
    scenario = case_from(document).scenario
    assert isinstance(scenario, Scenario)
    return scenario, decode(scenario.level, observe(msgspec.to_builtins(scenario)))


def shown(document: Document) -> frozenset[str]:
    return reached(*played(document))


def timeline(*requests: dict[str, Any], events: dict[str, Any] | None = None, **config: Any) -> Document:
    """A timeline on blocks of 4 tokens; requests are named r0, r1… where they have no other name."""
    named = [{"id": f"r{index}", **request} for index, request in enumerate(requests)]
    whole = {"model": "tiny-opt", "block_size": 4, "num_blocks": 20, **config}
    return {"level": "schedule", "config": whole, "requests": named, **(events or {})}


def plan(**config: Any) -> Document:
    return {"level": "plan", "config": {"model": "tiny-opt", **config}}


def drawn(level: Level, seeds: int) -> Iterator[tuple[Scenario, Observation]]:
    for number in range(seeds):
        search = Search(level, f"{number}/0")
        for _ in range(200):
            scenario, observation = played(search.draw())
            search.keep(pairs(reached(scenario, observation)))
            yield scenario, observation


def test_a_request_that_just_ends_shows_nothing_else() -> None:
    assert shown(timeline({"prompt": 5, "max_tokens": 4})) == {"done", "length"}


ONE_OF_TWO = [
    {"prompt": 6, "max_tokens": 4},
    {"prompt": 6, "max_tokens": 4},
]  # 2 blocks each, and then a third
SAME = {"prompt": [{"of": "r0"}], "max_tokens": 2, "at": 2}
BEHIND = {"prompt": 2, "max_tokens": 1, "at": 1}
FIVE = {"prompt": 5, "max_tokens": 6}


@pytest.mark.parametrize(
    ("document", "names", "others"),
    [
        # 4 usable blocks: in step 3 both have 9 tokens known and 8 slots, and the second gives way
        (
            timeline(*ONE_OF_TWO, num_blocks=5),
            {"preempted", "resumed", "pool-full"},
            {"self-preempted", "preempted-in-prefill"},
        ),
        # 3 usable blocks: the only one needs a fourth for its 13th token
        (
            timeline({"prompt": 12, "max_tokens": 4}, num_blocks=4),
            {"preempted", "self-preempted", "stall"},
            {"resumed"},
        ),
        # the whole prompt of 8 is cached, and its second block is kept back for the last token
        (
            timeline({"prompt": 8, "max_tokens": 9}, SAME),
            {"hit", "hit-in-use", "full-hit", "full-hit-minus-one"},
            {"hit-revived"},
        ),
        # of 9 tokens both full blocks may be read, after their owner has gone
        (
            timeline({"prompt": 9, "max_tokens": 1}, SAME),
            {"hit", "hit-revived", "full-hit"},
            {"hit-in-use", "full-hit-minus-one"},
        ),
        (
            timeline({"prompt": 9, "max_tokens": 9}, {**SAME, "cache_salt": "a"}),
            {"salted-miss"},
            {"hit", "prompt-logprobs-skip-cache"},
        ),
        (
            timeline({"prompt": 9, "max_tokens": 9}, {**SAME, "prompt_logprobs": 0}),
            {"prompt-logprobs-skip-cache"},
            {"hit", "salted-miss"},
        ),
        # prompt 3 and 5 of 6 output tokens are two blocks; the second turn finds both
        (
            timeline(
                {"prompt": 3, "max_tokens": 6},
                {"prompt": [{"of": "r0"}, {"output_of": "r0"}], "max_tokens": 1, "at": 9},
            ),
            {"hit-on-output"},
            set(),
        ),
        (timeline({"prompt": 10, "max_tokens": 2}, max_num_batched_tokens=4, max_num_seqs=4), {"chunked-prefill", "budget-exhausted"}, {"cut-by-threshold", "chunk-beside-decode"}),
        (
            timeline({"prompt": 1, "max_tokens": 9}, {"prompt": 10, "max_tokens": 1}, long_prefill_token_threshold=4),
            {"cut-by-threshold", "chunk-beside-decode"},
            {"budget-exhausted", "two-chunks-in-a-step"},
        ),
        (timeline(FIVE, BEHIND, max_num_seqs=1), {"waits-for-a-seat"}, {"waits-for-blocks"}),
        # 3 usable blocks, 2 held: 5 tokens of the next need 2
        (timeline(FIVE, {**FIVE, "at": 1}, num_blocks=4), {"waits-for-blocks"}, {"head-of-line-blocked", "held-by-watermark"}),
        (timeline(FIVE, {**FIVE, "at": 1}, {**BEHIND, "at": 2}, num_blocks=4), {"head-of-line-blocked"}, {"waits-for-a-seat"}),
        # 9 usable, 2 held, 7 free, half of 10 kept: the next needs 3
        (timeline(FIVE, {"prompt": 9, "max_tokens": 1, "at": 1}, num_blocks=10, watermark=0.5), {"held-by-watermark"}, {"held-by-full-length"}),
        (timeline({"prompt": 3, "max_tokens": 6}, {"prompt": 9, "max_tokens": 1, "at": 1}, num_blocks=4, long_prefill_token_threshold=4), {"held-by-full-length"}, {"held-by-watermark"}),
        (timeline({"prompt": 3, "max_tokens": 6}, {"prompt": 9, "max_tokens": 1, "at": 1}, num_blocks=4, long_prefill_token_threshold=4, scheduler_reserve_full_isl=False), {"admitted-beyond-room"}, {"held-by-full-length"}),
        (timeline({"prompt": 8, "max_tokens": 1}, {"prompt": 8, "max_tokens": 1}, max_model_len=12, max_num_seqs=4, max_num_batched_tokens=12, enable_chunked_prefill=False), {"held-by-chunking-off"}, {"waits-for-blocks"}),
        (timeline({**FIVE, "priority": 1}, {"prompt": 2, "max_tokens": 1, "at": 1}, max_num_seqs=1, scheduling_policy="priority"), {"priority-inversion"}, {"overtaken"}),
        (timeline({**FIVE, "priority": 1}, {"prompt": 2, "max_tokens": 1}, max_num_seqs=1, scheduling_policy="priority"), {"overtaken"}, {"priority-inversion", "tie-of-priorities"}),
        # the first is the less urgent, so its own need makes it the victim, and not the one that came last
        (timeline({**ONE_OF_TWO[0], "priority": 1}, {**ONE_OF_TWO[1], "at": 1}, num_blocks=5, scheduling_policy="priority"), {"preempted-by-priority", "self-preempted"}, {"preempted-after-its-turn"}),
        (timeline({"prompt": 5, "max_tokens": 9}, max_model_len=8), {"length", "last-slot-of-model"}, {"eos"}),
        (timeline({"prompt": 5, "max_tokens": 4, "output": [11, 2], "eos_token_id": 2}), {"eos"}, {"stop-token", "length", "stop-on-last-token"}),
        (timeline({"prompt": 5, "max_tokens": 2, "output": [11, 5], "stop_token_ids": [5]}), {"stop-token", "stop-on-last-token"}, {"eos", "length"}),
        (timeline({"prompt": 5, "max_tokens": 4, "output": [2], "eos_token_id": 2, "ignore_eos": True}), {"eos-ignored", "length"}, {"eos"}),
        (timeline({"prompt": 5, "max_tokens": 4, "output": [2], "eos_token_id": 2, "min_tokens": 2}), {"min-tokens-held-back", "length"}, {"eos"}),
        (timeline({"prompt": 5, "max_tokens": 4, "output": [2], "eos_token_id": 2, "min_tokens": 1}), {"eos"}, {"min-tokens-held-back"}),
        (timeline(FIVE, events={"aborts": [{"id": "r0", "at": 2}]}), {"abort-running", "done"}, {"abort-before-update", "abort-in-prefill"}),
        (timeline(FIVE, events={"aborts": [{"id": "r0", "at": 2, "when": "before_update"}]}), {"abort-before-update"}, {"abort-waiting"}),
        (timeline({**FIVE, "at": 1}, events={"aborts": [{"id": "r0", "at": 0}]}), {"abort-absent", "length", "empty-step"}, {"abort-ended"}),
        (timeline(FIVE, BEHIND, max_num_seqs=1, events={"aborts": [{"id": "r1", "at": 2}, {"id": "r1", "at": 3}]}), {"abort-waiting", "abort-ended"}, {"abort-running"}),
        (timeline(FIVE, events={"resets": [{"at": 2}]}), {"reset-refused"}, {"reset-done", "reset-with-running"}),
        (timeline(FIVE, events={"resets": [{"at": 2, "running": True}]}), {"reset-done", "reset-with-running", "preempted", "resumed"}, {"reset-refused", "self-preempted"}),
        (timeline(FIVE, events={"max_steps": 3}), {"limit"}, {"done"}),
        (timeline(FIVE, num_blocks=0), {"refused"}, {"done"}),
    ],
)  # fmt: skip
def test_a_timeline_shows_what_its_arithmetic_says(
    document: Document, names: set[str], others: set[str]
) -> None:
    actual = shown(document)

    assert names <= actual
    assert not others & actual


@pytest.mark.parametrize(
    ("document", "names", "others"),
    [
        # tiny-opt in float32: 2 x 4 bytes x 2 layers x 2 heads x 32 x 16 tokens = 16384 a block
        (plan(num_blocks=4), {"ok", "auto-reduced", "length-needs-the-null-block", "override-below-memory", "one-request-fits"}, {"memory-to-the-byte"}),
        (plan(kv_cache_memory_bytes=4 * 16384), {"memory-to-the-byte"}, {"memory-left-over"}),
        (plan(kv_cache_memory_bytes=4 * 16384 + 1, max_model_len=17), {"memory-left-over", "explicit-length", "length-ends-within-a-block"}, {"one-request-fits"}),
        (plan(num_blocks=4, kv_cache_memory_bytes=16384), {"override-above-memory"}, {"override-below-memory"}),
        (plan(num_blocks=129), {"auto-keeps-model-length"}, {"auto-reduced", "length-needs-the-null-block"}),
        (plan(num_blocks=1), {"no-usable-block"}, {"one-usable-block"}),
        (plan(num_blocks=2), {"one-usable-block"}, {"no-usable-block"}),
        (plan(num_blocks=4, max_model_len=65), {"kv-cache-too-small", "estimate-named"}, {"ok", "estimate-missing"}),
        (plan(kv_cache_memory_bytes=1, max_model_len=1), {"kv-cache-too-small", "estimate-missing"}, {"estimate-named"}),
        (plan(num_blocks=0, max_model_len=1, max_num_seqs=2), {"no-kv-cache-memory", "warned-and-refused"}, {"cannot-auto-fit"}),
        (plan(num_blocks=0), {"cannot-auto-fit"}, {"warned-and-refused"}),
    ],
)  # fmt: skip
def test_a_plan_shows_what_its_arithmetic_says(document: Document, names: set[str], others: set[str]) -> None:
    actual = shown(document)

    assert names <= actual
    assert not others & actual


@pytest.mark.parametrize(("level", "seeds"), [("plan", 20), ("schedule", 15)])
def test_a_few_thousand_scenarios_reach_every_behaviour_and_no_other(level: Level, seeds: int) -> None:
    missing = set(VOCABULARY[level])
    for scenario, observation in drawn(level, seeds):
        names = reached(scenario, observation)
        assert names <= set(VOCABULARY[level])
        missing -= names
        if not missing:
            break

    assert not missing


def test_following_a_timeline_counts_the_tokens_that_each_request_got() -> None:
    for scenario, observation in drawn("schedule", 2):
        assert isinstance(observation, Schedule)
        if observation.end.kind == "error":
            continue  # the step that raised is not listed
        lives = {}
        for moment in follow(scenario, observation):
            lives = moment.lives
            assert sorted(moment.step.running) == sorted(
                name for name, life in lives.items() if life.state == "running"
            )
            assert set(moment.step.waiting) == {
                name for name, life in lives.items() if life.state in ("waiting", "preempted")
            }
        assert {name: life.outputs for name, life in lives.items()} == dict(
            observation.end.outputs if observation.steps else []
        )


def test_pairs_are_every_two_in_alphabetical_order() -> None:
    assert pairs(["resumed", "hit", "evicted"]) == {"evicted+hit", "evicted+resumed", "hit+resumed"}


def test_states_know_neither_ids_nor_when_a_step_was() -> None:
    _, early = played(timeline(FIVE))
    _, late = played(timeline({**FIVE, "id": "other", "at": 1}))
    _, more = played(timeline(FIVE, FIVE))

    assert states(early) < states(late)  # and the empty step
    assert len(states(late) - states(early)) == 1
    assert states(more) - states(late)


def test_states_of_plans_tell_refusals_and_sizes_apart() -> None:
    plans = [
        plan(num_blocks=4),
        plan(num_blocks=0),
        plan(num_blocks=4, max_model_len=65),
        plan(num_blocks=400),
    ]

    assert len(set().union(*(states(played(document)[1]) for document in plans))) == len(plans)
    assert isinstance(played(plans[0])[1], PlanOk)


def test_an_observation_of_another_level_is_no_scenarios() -> None:
    scenario, _ = played(plan(num_blocks=4))
    served = Serve(exchanges=[], conditions=[], health=[], preempted=False, after=None, ended=None)

    with pytest.raises(TypeError, match="an observation that is Serve"):
        reached(scenario, served)
