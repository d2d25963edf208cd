"""Text in, text out over a tiny model: choices, stop strings, streams that are closed, and what is refused first."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.generation import TextOutput
from engine.llm import LLM, Completed, Prepared, join
from engine.options import EngineOptions
from engine.sampling import RequestRefused, SamplingParams
from engine.startup import load_llm

GREEDY = SamplingParams(temperature=0.0, ignore_eos=True)


def one(llm: LLM, prompt: str | list[int], max_tokens: int = 12, **params: Any) -> Completed:
    """The only choice of a greedy request that ignores EOS, unless `params` say otherwise."""
    values: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
    prepared = llm.prepare(prompt, SamplingParams(**values | params), max_tokens=max_tokens)
    return llm.generate([prepared])[0][0]


def test_a_text_is_continued(llm: LLM) -> None:
    done = one(llm, "Hello", 12)

    assert (len(done.token_ids), done.finish_reason, done.stop_reason) == (12, "length", None)
    assert llm.tokenizer.decode(done.token_ids, skip_special_tokens=True).startswith(done.text)
    assert one(llm, llm.tokenizer.encode("Hello"), 12).token_ids == done.token_ids


def test_the_plain_twins_generate_the_same(llm: LLM, tiny_opt: Path) -> None:
    options = EngineOptions(model=str(tiny_opt), num_gpu_blocks_override=64, plain=True)
    plain = load_llm(options, lambda _line: None)
    try:
        assert one(plain, "Hello there", 24) == one(llm, "Hello there", 24)
    finally:
        plain.stop()


def test_alone_together_and_under_preemption_are_the_same(llm: LLM, tiny_opt: Path) -> None:
    """Twelve blocks hold three of six requests of up to 60 slots: the others are preempted and computed again."""
    prompts = [f"{number} blocks of the pool are handed out" for number in range(6)]
    alone = [one(llm, prompt, 30) for prompt in prompts]
    options = EngineOptions(
        model=str(tiny_opt), num_gpu_blocks_override=12, max_num_batched_tokens=40, max_num_seqs=8
    )
    tight = load_llm(options, lambda _line: None)
    try:
        crowded = tight.generate([tight.prepare(prompt, GREEDY, max_tokens=30) for prompt in prompts])
        preemptions = tight.stats().preemptions
    finally:
        tight.stop()
    together = llm.generate([llm.prepare(prompt, GREEDY, max_tokens=30) for prompt in prompts])

    assert preemptions > 0
    assert [choice.token_ids for (choice,) in together] == [choice.token_ids for choice in alone]
    assert [choice.token_ids for (choice,) in crowded] == [choice.token_ids for choice in alone]
    assert [choice.text for (choice,) in crowded] == [choice.text for choice in alone]


def test_a_stop_string_ends_the_choice_wherever_it_lies(llm: LLM) -> None:
    """The stop string is taken from what the model says, so that it crosses a token border."""
    whole = one(llm, "Hello", 20)
    first = one(llm, "Hello", 3).text
    stop = whole.text[len(first) - 1 : len(first) + 3]
    at = whole.text.index(stop)

    cut = one(llm, "Hello", 20, stop=(stop,))
    kept = one(llm, "Hello", 20, stop=(stop,), include_stop_str_in_output=True)

    assert (cut.text, cut.finish_reason, cut.stop_reason) == (whole.text[:at], "stop", stop)
    assert kept.text == whole.text[: at + len(stop)]
    assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]
    assert len(cut.token_ids) < 20
    assert llm.drain(20)
    assert llm.stats().free_blocks == 63


def test_choices_of_a_seed_differ_and_are_those_of_the_next_seeds(llm: LLM) -> None:
    params = SamplingParams(n=3, temperature=1.0, seed=5, ignore_eos=True)
    three = llm.generate([llm.prepare("Hello", params, max_tokens=8)])[0]
    alone = [one(llm, "Hello", 8, temperature=1.0, seed=5 + index) for index in range(3)]

    assert [choice.index for choice in three] == [0, 1, 2]
    assert [choice.token_ids for choice in three] == [choice.token_ids for choice in alone]
    assert len({choice.token_ids for choice in three}) == 3


def test_logprobs_of_output_and_prompt_say_what_greedy_did(llm: LLM) -> None:
    ids = llm.tokenizer.encode("Hello world, hello there")
    first = one(llm, ids, 5, logprobs=2, prompt_logprobs=1)
    repeated = one(llm, [*ids, *first.token_ids], 1, prompt_logprobs=0)

    assert first.logprobs is not None
    assert first.prompt_logprobs is not None
    assert repeated.prompt_logprobs is not None
    assert [entry.token_id for entry in first.logprobs] == list(first.token_ids)
    assert all(entry.rank == 1 and entry.top[0][0] == entry.token_id for entry in first.logprobs)
    assert first.prompt_logprobs[0] is None
    assert [entry.token_id for entry in first.prompt_logprobs[1:] if entry] == ids[1:]
    again = repeated.prompt_logprobs[len(ids) :]
    for entry, told in zip(again, first.logprobs, strict=True):
        assert entry is not None
        assert (entry.token_id, entry.rank) == (told.token_id, 1)
        assert entry.logprob == pytest.approx(told.logprob, abs=2e-4)


def test_prompt_logprobs_do_not_depend_on_how_the_prompt_is_cut(llm: LLM, tiny_opt: Path) -> None:
    ids = llm.tokenizer.encode("The pool hands out blocks, the table of a request says which are its own.")
    options = EngineOptions(
        model=str(tiny_opt), num_gpu_blocks_override=64, max_num_batched_tokens=7, max_num_seqs=4
    )
    chunked = load_llm(options, lambda _line: None)
    try:
        parts = one(chunked, ids, 2, prompt_logprobs=1).prompt_logprobs
    finally:
        chunked.stop()
    whole = one(llm, ids, 2, prompt_logprobs=1).prompt_logprobs

    assert parts is not None
    assert whole is not None
    assert len(parts) == len(whole) == len(ids)
    for cut, uncut in zip(parts[1:], whole[1:], strict=True):
        assert cut is not None
        assert uncut is not None
        assert (cut.token_id, cut.rank) == (uncut.token_id, uncut.rank)
        assert cut.logprob == pytest.approx(uncut.logprob, abs=2e-4)


async def gather(llm: LLM, prepared: Prepared) -> list[TextOutput]:
    return [output async for output in llm.stream(prepared)]


def test_a_stream_is_the_whole_in_parts(llm: LLM) -> None:
    prepared = llm.prepare("Hello", GREEDY, max_tokens=12)
    outputs = asyncio.run(gather(llm, prepared))

    assert [len(output.token_ids) for output in outputs] == [1] * 12
    assert join(0, outputs).token_ids == one(llm, "Hello", 12).token_ids
    assert "".join(output.text for output in outputs) == one(llm, "Hello", 12).text
    assert [output.finish_reason for output in outputs] == [None] * 11 + ["length"]


def test_many_streams_at_once(llm: LLM) -> None:
    prompts = [f"{number} blocks" for number in range(12)]

    async def all_of_them() -> list[list[TextOutput]]:
        prepared = [llm.prepare(prompt, GREEDY, max_tokens=10) for prompt in prompts]
        return await asyncio.gather(*(gather(llm, request) for request in prepared))

    for prompt, outputs in zip(prompts, asyncio.run(all_of_them()), strict=True):
        assert join(0, outputs).token_ids == one(llm, prompt, 10).token_ids


def test_a_stream_that_is_left_is_aborted(llm: LLM) -> None:
    async def leave() -> None:
        stream = llm.stream(llm.prepare("Hello", SamplingParams(n=2, ignore_eos=True), max_tokens=900))
        async for _output in stream:
            break
        await stream.aclose()

    before = llm.stats()
    asyncio.run(leave())

    assert llm.drain(20)
    assert llm.stats().generation_tokens < before.generation_tokens + 1800
    assert llm.stats().finished == before.finished
    assert llm.stats().free_blocks == 63


def test_stop_gives_everybody_an_end(tiny_opt: Path) -> None:
    served = load_llm(EngineOptions(model=str(tiny_opt), num_gpu_blocks_override=4), lambda _line: None)
    prepared = served.prepare("Hello", GREEDY, max_tokens=61)
    ended: list[Completed] = []
    client = threading.Thread(target=lambda: ended.append(served.generate([prepared])[0][0]))
    client.start()
    _wait_until_stalled(served)

    served.stop()
    client.join(20)

    assert [(done.finish_reason, len(done.token_ids)) for done in ended] == [("abort", 47)]


def _wait_until_stalled(served: LLM) -> None:
    tick = threading.Event()
    for _ in range(2000):
        if served.stats().stalled:
            return
        tick.wait(0.01)
    pytest.fail("the request never got stuck")


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "param"),
    [
        ([5] * 10, 1025, "max_tokens"),
        ("x" * 100_000, None, "input_text"),
        ([5] * 1000, 25, "input_tokens"),
        ([5] * 1025, None, "input_tokens"),
        ([5] * 1024, None, "max_tokens"),
        ([5] * 1024, 0, "max_tokens"),
        ([5], 0, "max_tokens"),
        ([], 5, None),
        ([512], 5, None),
        ([-1], 5, None),
        ("\ud800", 5, None),
    ],
)
def test_refused_before_anything_is_queued(
    llm: LLM, prompt: str | list[int], max_tokens: int | None, param: str | None
) -> None:
    """64 blocks of 16: the length is 1024."""
    with pytest.raises(RequestRefused) as refusal:
        llm.prepare(prompt, GREEDY, max_tokens=max_tokens)

    assert refusal.value.param == param
    assert "\n" not in str(refusal.value)


def test_without_a_number_the_length_or_the_operator_decides(llm: LLM) -> None:
    assert llm.prepare([5] * 1000, GREEDY).params.max_tokens == 24
    ceiled = LLM(llm.core, llm.tokenizer, name="x", ceiling=7, defaults={"max_tokens": 9})
    assert ceiled.prepare([5], GREEDY).params.max_tokens == 7
    assert ceiled.prepare([5], GREEDY, max_tokens=3).params.max_tokens == 3
    assert (
        LLM(llm.core, llm.tokenizer, name="x", defaults={"max_tokens": 9})
        .prepare([5], GREEDY)
        .params.max_tokens
        == 9
    )


def test_the_chat_template_makes_the_prompt(llm: LLM) -> None:
    messages = [{"role": "user", "content": "Hi"}]

    assert llm.tokenizer.chat_prompt(messages) == "user: Hi\nassistant:"
    assert llm.tokenizer.chat_prompt(messages, add_generation_prompt=False) == "user: Hi\n"
    with pytest.raises(RequestRefused) as refusal:
        llm.tokenizer.chat_prompt([{"role": "user"}], chat_template="{{ raise_exception('planted') }}")
    assert "planted" in str(refusal.value)
