"""The loop: requests in, tokens out, whatever happens to be in flight beside them."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter

import pytest

from engine import execution
from engine.core import STOP_SECONDS
from engine.live import CoreRequest
from engine.outputs import FinishReason, RequestOutput
from engine.sampling import SamplingParams
from engine.scheduler import Scheduler
from tests.engine.core.fakes import SECONDS, VOCAB, Heard, greedy, logits_of, scene


def prompt(length: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(VOCAB), k=length)


def test_a_request_gets_the_tokens_that_its_context_calls_for() -> None:
    with scene() as s:
        heard = s.add("a", prompt(5), max_tokens=40).wait()

    assert heard.tokens == greedy(prompt(5), 40)
    assert heard.reason == "length"
    assert [len(output.token_ids) for output in heard.outputs] == [1] * 40


@pytest.mark.parametrize("blocks", [64, 9])
def test_many_at_once_get_what_each_gets_alone(blocks: int) -> None:
    """Nine blocks force preemptions: what is computed again must read the same context."""
    with scene(num_blocks=blocks, max_num_batched_tokens=24) as s:
        heard = [s.add(f"r{i}", prompt(3 + 5 * i, i), max_tokens=20 + i) for i in range(8)]
        for i, one in enumerate(heard):
            assert one.wait().tokens == greedy(prompt(3 + 5 * i, i), 20 + i)
        stats = s.core.stats()

    assert (stats.preemptions > 0) == (blocks == 9)
    assert stats.generation_tokens == sum(20 + i for i in range(8))
    assert stats.finished["length"] == 8


def test_a_cached_prefix_is_counted_and_changes_nothing() -> None:
    with scene() as s:
        first = s.add("a", prompt(40)).wait()
        second = s.add("b", prompt(40)).wait()
        assert s.core.drain(SECONDS)
        stats = s.core.stats()

    assert first.tokens == second.tokens == greedy(prompt(40), 4)
    assert [first.outputs[0].num_cached_tokens, second.outputs[0].num_cached_tokens] == [0, 32]
    assert (stats.prompt_tokens, stats.cached_tokens, stats.kv_cache_usage) == (80, 32, 0.0)


def test_an_abort_ends_one_request_and_frees_its_blocks() -> None:
    with scene() as s:
        stays = s.add("stays", prompt(5, 1), max_tokens=100)
        goes = s.add("goes", prompt(5, 2), max_tokens=2000).wait_first()
        s.core.abort(["goes", "unknown"])

        assert goes.wait().reason == "abort"
        assert stays.wait().tokens == greedy(prompt(5, 1), 100)
        assert s.core.drain(SECONDS)
        assert s.core.stats().free_blocks == 63


def test_a_request_may_be_aborted_before_the_core_has_seen_it() -> None:
    with scene() as s:
        s.runner.gate.clear()
        running = s.add("running", prompt(5))
        assert s.runner.entered.wait(SECONDS)
        early = s.add("early", prompt(5, 2))
        s.core.abort(["early"])
        s.runner.gate.set()

        assert early.wait().reason == "abort"
        assert early.tokens == []
        assert running.wait().reason == "length"


def test_a_stuck_request_waits_without_work_until_it_is_aborted() -> None:
    """Prompt 8 and 56 tokens need 63 slots; three blocks have 48: 41 tokens, then nothing."""
    with scene(num_blocks=4) as s:
        stuck = s.add("stuck", prompt(8), max_tokens=56).wait_first()
        _until(lambda: s.core.stats().stalled)
        behind = s.add("behind", prompt(5, 2), max_tokens=2)
        _until(lambda: s.core.stats().stalled and s.core.stats().waiting == 2)
        stats, steps = s.core.stats(), len(s.runner.steps)
        cpu = time.process_time()
        time.sleep(0.5)

        assert time.process_time() - cpu < 0.25
        assert len(s.runner.steps) == steps
        assert (len(stuck.tokens), stuck.ended, behind.ended) == (41, False, False)
        assert (stats.running, stats.waiting, stats.waiting_by_reason["capacity"]) == (0, 2, 2)
        assert stats.preemptions == 0  # as upstream counts: with the next token, which never comes
        assert stats.kv_cache_usage == 0.0
        assert not s.core.drain(0.05)

        s.core.abort(["stuck"])

        assert stuck.wait().reason == "abort"
        assert behind.wait().tokens == greedy(prompt(5, 2), 2)


def test_stop_answers_everybody_stuck_running_and_new() -> None:
    with scene(num_blocks=4) as s:
        stuck = s.add("stuck", prompt(8), max_tokens=56)
        _until(lambda: s.core.stats().stalled)
        waiting = s.add("waiting", prompt(20), max_tokens=4)
        s.core.stop()
        late = s.add("late", prompt(5))

        assert [heard.wait().reason for heard in (stuck, waiting, late)] == ["abort"] * 3
        assert not s.core.alive
        assert s.core.stats().finished["abort"] == 3


def test_stop_does_not_wait_for_a_step_that_takes_for_ever() -> None:
    with scene() as s:
        s.runner.gate.clear()
        heard = s.add("a", prompt(5))
        assert s.runner.entered.wait(SECONDS)
        started = time.monotonic()

        s.core.stop()

        assert heard.wait().reason == "abort"
        assert time.monotonic() - started < STOP_SECONDS + 1
        s.runner.gate.set()
        time.sleep(0.05)
        assert len(heard.outputs) == 1


def test_the_culprit_fails_alone() -> None:
    with scene() as s:
        s.runner.fails = lambda row: row.request_id == "bad" and row.start > 0
        good = [s.add(f"g{i}", prompt(5, i), max_tokens=30) for i in range(3)]
        bad = s.add("bad", prompt(5, 9), max_tokens=30)

        assert bad.wait().reason == "error"
        assert "RuntimeError: row bad is poison" in (bad.outputs[-1].error or "")
        for i, heard in enumerate(good):
            assert heard.wait().tokens == greedy(prompt(5, i), 30)
        assert s.core.drain(SECONDS)
        assert s.core.stats().free_blocks == 63
        assert s.core.alive


def test_what_a_failed_request_left_in_the_cache_is_never_read() -> None:
    """All three share two full blocks in the step in which the first, who would have written them, fails."""
    shared = prompt(40, 7)
    with scene() as s:
        s.runner.gate.clear()
        first = s.add("plug", prompt(3, 1), max_tokens=6)
        assert s.runner.entered.wait(SECONDS)
        s.runner.fails = lambda row: row.request_id == "bad"
        bad = s.add("bad", shared)
        sharing = [s.add(f"s{i}", [*shared, i], max_tokens=6) for i in range(2)]
        s.runner.gate.set()

        assert bad.wait().reason == "error"
        for i, heard in enumerate(sharing):
            assert heard.wait().tokens == greedy([*shared, i], 6)
        assert first.wait().tokens == greedy(prompt(3, 1), 6)
        assert s.add("later", shared).wait().tokens == greedy(shared, 4)


def test_a_seed_survives_a_step_that_had_to_be_repeated() -> None:
    def play(disturbed: bool) -> list[int]:
        with scene() as s:
            s.runner.fails = lambda row: disturbed and row.request_id == "bad" and row.start > 0
            drawn = s.add("drawn", prompt(5), max_tokens=12, temperature=1.0, seed=11)
            s.add("bad", prompt(5, 2), max_tokens=30)
            return drawn.wait().tokens

    assert play(disturbed=True) == play(disturbed=False)


def test_the_loop_survives_a_scheduler_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    with scene() as s:
        assert s.add("before", prompt(5)).wait().reason == "length"

        def broken(_scheduler: Scheduler) -> None:
            raise AssertionError("planted")

        monkeypatch.setattr(Scheduler, "schedule", broken)
        heard = s.add("unlucky", prompt(5)).wait()
        monkeypatch.undo()

        assert (heard.reason, s.core.alive) == ("error", True)
        assert s.add("after", prompt(5)).wait().tokens == greedy(prompt(5), 4)


def test_a_sink_that_raises_loses_only_its_own_request() -> None:
    def broken(_output: RequestOutput) -> None:
        raise ValueError("planted")

    with scene() as s:
        params = SamplingParams(temperature=0.0, max_tokens=500, ignore_eos=True)
        s.core.add(CoreRequest("broken", tuple(prompt(5)), params), broken)

        assert s.add("good", prompt(5, 3), max_tokens=50).wait().tokens == greedy(prompt(5, 3), 50)
        assert s.core.drain(SECONDS)
        assert s.core.stats().finished == {"stop": 0, "length": 1, "abort": 1, "error": 0}


@pytest.mark.parametrize(("answers_at", "max_tokens"), [(3, 500), (3, 3), (1, 500)])
def test_a_sink_that_answers_a_reason_ends_the_request_and_that_reason_counts(
    answers_at: int, max_tokens: int
) -> None:
    """Also where the core ends the request by its length on the very token that the sink ends it on."""
    outputs: list[RequestOutput] = []

    def stops(output: RequestOutput) -> FinishReason | None:
        outputs.append(output)
        return "stop" if len(outputs) == answers_at else None

    with scene() as s:
        params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        s.core.add(CoreRequest("stops", tuple(prompt(5)), params), stops)
        s.add("good", prompt(5, 3), max_tokens=50).wait()

        assert s.core.drain(SECONDS)
        assert len(outputs) == answers_at
        assert s.core.stats().finished == {"stop": 1, "length": 1, "abort": 0, "error": 0}
        assert s.core.stats().free_blocks == s.plan.usable_blocks


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (CoreRequest("x", (), SamplingParams()), "empty"),
        (CoreRequest("x", (1,) * 2048, SamplingParams()), "no room"),
        (CoreRequest("x", (2**64,) * 16, SamplingParams()), "too large|big|overflow|range"),
        (CoreRequest("x", (1,), SamplingParams(seed=2**70)), "verflow|range"),
    ],
)
def test_a_request_that_cannot_be_queued_fails_at_once(asked: CoreRequest, says: str) -> None:
    with scene(num_blocks=200) as s:
        heard = Heard()
        s.core.add(asked, heard)

        assert heard.wait().reason == "error"
        assert heard.outputs[0].error is not None
        assert re.search(says, heard.outputs[0].error)
        assert s.add("good", prompt(5)).wait().reason == "length"


def test_an_id_that_is_in_flight_is_refused_and_the_first_goes_on() -> None:
    with scene() as s:
        first = s.add("same", prompt(5), max_tokens=60)
        second = s.add("same", prompt(6))

        assert second.wait().reason == "error"
        assert first.wait().tokens == greedy(prompt(5), 60)


def test_eos_stop_ids_and_min_tokens_end_a_request_as_upstream_does() -> None:
    told = greedy(prompt(5), 12)
    with scene() as s:
        eos = s.add("eos", prompt(5), 12, ignore_eos=False, eos_token_id=told[3]).wait()
        more = s.add("more", prompt(5), 12, ignore_eos=False, more_eos_token_ids=(told[2],)).wait()
        stop = s.add("stop", prompt(5), 12, stop_token_ids=(told[1],)).wait()
        ignored = s.add("ignored", prompt(5), 12, eos_token_id=told[3], more_eos_token_ids=(told[2],)).wait()
        held = s.add("held", prompt(5), 12, stop_token_ids=(told[0],), min_tokens=6).wait()

    first = [told.index(token) + 1 for token in (told[3], told[2], told[1])]
    assert [(h.reason, h.outputs[-1].stop_reason, len(h.tokens)) for h in (eos, more, stop)] == [
        ("stop", None, first[0]),
        ("stop", told[2], first[1]),
        ("stop", told[1], first[2]),
    ]
    assert (ignored.reason, ignored.tokens) == ("length", told)
    assert told[0] not in held.tokens[:6]


def test_prompt_logits_are_asked_for_in_bounded_parts_and_say_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three requests of one step, the last of which finds the blocks of the first in the cache in that very step."""
    monkeypatch.setattr(execution, "MOST_PROMPT_LOGITS", 16)
    long, other = prompt(50, 1), prompt(37, 2)
    with scene() as s:
        s.runner.gate.clear()
        s.add("first", prompt(5))
        assert s.runner.entered.wait(SECONDS)
        scored = [s.add(f"s{i}", ids, prompt_logprobs=0) for i, ids in enumerate((long, other))]
        finds = s.add("finds", [*long[:48], 1, 2])
        s.runner.gate.set()

        assert finds.wait().tokens == greedy([*long[:48], 1, 2], 4)
        assert finds.outputs[0].num_cached_tokens == 48
        for heard, ids in zip(scored, (long, other), strict=True):
            assert heard.wait().tokens == greedy(ids, 4)
            entries = heard.outputs[0].prompt_logprobs
            assert entries is not None
            assert (entries[0], len(entries)) == (None, len(ids))
            assert [entry.logprob for entry in entries[1:] if entry] == pytest.approx(
                [float(logits_of(ids[:i]).log_softmax(-1)[ids[i]]) for i in range(1, len(ids))]
            )
        asked = [sum(len(row.token_ids) for row in rows if row.prompt_logits) for rows in s.runner.steps]
        assert sum(asked) == 50 + 37
        assert max(asked) <= 16 + 1


def test_threads_may_add_and_abort_at_will() -> None:
    """Four threads, 25 requests each, every third aborted at some time: each has exactly one end."""
    heard: dict[str, Heard] = {}

    with scene(num_blocks=20, max_num_seqs=8) as s:

        def work(number: int) -> None:
            chance = random.Random(number)
            for i in range(25):
                name = f"t{number}-{i}"
                heard[name] = s.add(name, prompt(chance.randint(1, 60), i), max_tokens=chance.randint(1, 30))
                if i % 3 == 0:
                    s.core.abort([f"t{number}-{chance.randint(0, i)}"])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert s.core.drain(SECONDS)
        stats = s.core.stats()

    assert len(heard) == 100
    ends = Counter(one.wait().reason for one in heard.values())
    assert ends.keys() == {"length", "abort"}
    assert stats.finished == {"stop": 0, "length": ends["length"], "abort": 0, "error": 0}
    assert (stats.free_blocks, stats.running, stats.waiting) == (19, 0, 0)
    assert stats.time_to_first_token.total <= 100


def _until(holds: object) -> None:
    assert callable(holds)
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)
