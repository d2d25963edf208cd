"""What completions say: choices, echoes, stops, logprobs, ids, lengths and defaults."""

from __future__ import annotations

from typing import Any

import pytest

from engine.llm import LLM
from tests.engine.server.talk import Talk

PROMPT = [100, 101, 102, 103, 104, 105]


def choice(answer: Any) -> Any:
    return answer["choices"][0]


def test_the_keys_of_a_response_are_upstreams_in_upstreams_order(talk: Talk) -> None:
    answer = talk.complete()

    assert list(answer) == ["id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage", "kv_transfer_params", "ec_transfer_params", "metrics"]  # fmt: skip
    assert list(choice(answer)) == ["index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids", "prompt_logprobs", "prompt_token_ids", "routed_experts"]  # fmt: skip
    assert list(answer["usage"]) == [
        "prompt_tokens",
        "total_tokens",
        "completion_tokens",
        "prompt_tokens_details",
    ]
    assert answer["id"].startswith("cmpl-")


def test_ids_come_from_the_header_first_and_then_from_the_body(talk: Talk) -> None:
    body = {"prompt": PROMPT, "max_tokens": 1, "request_id": "mine"}

    by_body = talk.post("/v1/completions", body).json()["id"]
    by_header = talk.send("POST", "/v1/completions", json=body, headers={"X-Request-Id": "yours"}).json()[
        "id"
    ]

    assert (by_body, by_header) == ("cmpl-mine", "cmpl-yours")


def test_an_empty_id_is_an_id(talk: Talk) -> None:
    body = {"prompt": PROMPT, "max_tokens": 1, "request_id": ""}

    by_body = talk.post("/v1/completions", body).json()["id"]
    by_header = talk.send("POST", "/v1/completions", json=body, headers={"X-Request-Id": ""}).json()["id"]

    assert (by_body, by_header) == ("cmpl-", "cmpl-")


def test_a_prompt_of_text_is_the_prompt_of_its_tokens(talk: Talk, llm: LLM) -> None:
    text = "Hello, what is the answer?"

    by_text = choice(talk.complete(prompt=text, return_token_ids=True))
    by_ids = choice(talk.complete(prompt=llm.tokenizer.encode(text), return_token_ids=True))

    assert by_text["token_ids"] == by_ids["token_ids"]
    assert by_text["prompt_token_ids"] == by_ids["prompt_token_ids"] == llm.tokenizer.encode(text)


def test_add_special_tokens_decides_whether_a_text_gets_them(talk: Talk, llm: LLM) -> None:
    plain = choice(talk.complete(prompt="Hello", add_special_tokens=False, return_token_ids=True))

    assert plain["prompt_token_ids"] == llm.tokenizer.encode("Hello", add_special_tokens=False)
    assert plain["prompt_token_ids"] != llm.tokenizer.encode("Hello")


def test_choices_of_several_prompts_count_through(talk: Talk) -> None:
    answer = talk.complete(prompt=[PROMPT, [7, 8]], n=2, temperature=1, seed=1, return_token_ids=True)

    assert [c["index"] for c in answer["choices"]] == [0, 1, 2, 3]
    assert [c["prompt_token_ids"] for c in answer["choices"]] == [PROMPT, PROMPT, [7, 8], [7, 8]]
    assert answer["usage"]["prompt_tokens"] == 8
    assert answer["usage"]["completion_tokens"] == 12


def test_a_choice_of_n_has_the_seed_moved_by_its_index(talk: Talk) -> None:
    three = talk.complete(n=3, temperature=1, seed=11, return_token_ids=True)["choices"]

    alone = [choice(talk.complete(temperature=1, seed=11 + i, return_token_ids=True)) for i in range(3)]

    assert [c["token_ids"] for c in three] == [c["token_ids"] for c in alone]
    assert len({tuple(c["token_ids"]) for c in three}) > 1


def test_echo_repeats_the_prompt_before_the_output(talk: Talk) -> None:
    alone = choice(talk.complete(prompt="Hello there"))

    echoed = choice(talk.complete(prompt="Hello there", echo=True))

    assert echoed["text"] == "Hello there" + alone["text"]


def test_echo_of_no_tokens_is_the_prompt_alone_and_costs_one_token(talk: Talk) -> None:
    answer = talk.complete(prompt="Hello there", echo=True, max_tokens=0)

    assert choice(answer)["text"] == "Hello there"
    assert answer["usage"]["completion_tokens"] == 1


def test_echo_with_logprobs_has_an_entry_a_token_and_none_for_the_first(talk: Talk) -> None:
    logprobs = choice(talk.complete(prompt=PROMPT, echo=True, logprobs=2))["logprobs"]

    assert {key: len(value) for key, value in logprobs.items()} == dict.fromkeys(logprobs, 9)
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    assert all(value is not None and value <= 0 for value in logprobs["token_logprobs"][1:])


def test_the_greedy_token_is_the_best_alternative(talk: Talk) -> None:
    body = {
        "logprobs": 3,
        "return_tokens_as_token_ids": True,
    }  # texts of two tokens may be the same, ids are not

    logprobs = choice(talk.complete(prompt="Hello", **body))["logprobs"]

    rows = zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)
    for token, value, top in rows:
        assert top[token] == value == max(top.values())
        assert len(top) == 3


def test_offsets_count_characters(talk: Talk) -> None:
    logprobs = choice(talk.complete(prompt="Hello", logprobs=0))["logprobs"]

    assert logprobs["text_offset"] == [sum(map(len, logprobs["tokens"][:i])) for i in range(3)]


def test_tokens_as_ids(talk: Talk) -> None:
    answer = choice(talk.complete(logprobs=0, return_tokens_as_token_ids=True, return_token_ids=True))

    assert answer["logprobs"]["tokens"] == [f"token_id:{token}" for token in answer["token_ids"]]


def test_prompt_logprobs_name_rank_and_text(talk: Talk) -> None:
    entries = choice(talk.complete(prompt=PROMPT, prompt_logprobs=1))["prompt_logprobs"]

    assert entries[0] is None
    for token, entry in zip(PROMPT[1:], entries[1:], strict=True):
        assert str(token) == next(iter(entry))
        assert min(value["rank"] for value in entry.values()) == 1
        assert all(set(value) == {"logprob", "rank", "decoded_token"} for value in entry.values())


def test_a_stop_id_has_no_text_and_counts(talk: Talk) -> None:
    free = choice(talk.complete(max_tokens=8, return_token_ids=True))
    stop = free["token_ids"][2]
    expected = free["token_ids"][: free["token_ids"].index(stop) + 1]

    stopped = choice(talk.complete(max_tokens=8, stop_token_ids=[stop], return_token_ids=True))

    assert stopped["token_ids"] == expected
    assert (stopped["finish_reason"], stopped["stop_reason"]) == ("stop", stop)
    shown = choice(talk.complete(max_tokens=8, stop_token_ids=[stop], include_stop_str_in_output=True))
    assert shown["text"].startswith(stopped["text"])
    assert len(shown["text"]) > len(stopped["text"])


def test_a_stop_string_cuts_the_text(talk: Talk) -> None:
    free = choice(talk.complete(prompt="Hello", max_tokens=12))["text"]
    stop = free[4:6]
    cut = free[: free.index(stop)]

    stopped = choice(talk.complete(prompt="Hello", max_tokens=12, stop=stop))
    kept = choice(talk.complete(prompt="Hello", max_tokens=12, stop=[stop], include_stop_str_in_output=True))

    assert (stopped["text"], stopped["stop_reason"]) == (cut, stop)
    assert kept["text"] == cut + stop


@pytest.mark.parametrize(
    ("side", "kept"), [("left", PROMPT[-3:]), ("right", PROMPT[:3]), (None, PROMPT[-3:])]
)
def test_truncation_keeps_the_end_unless_the_right_is_cut(
    side: str | None, kept: list[int], talk: Talk
) -> None:
    answer = talk.complete(
        prompt=PROMPT, truncate_prompt_tokens=3, truncation_side=side, return_token_ids=True
    )

    assert choice(answer)["prompt_token_ids"] == kept


def test_truncation_to_what_fits(talk: Talk) -> None:
    answer = talk.complete(prompt=[7] * 100, truncate_prompt_tokens=-1, max_tokens=4)

    assert answer["usage"]["prompt_tokens"] == 60


def test_the_same_salt_finds_the_cache_and_another_does_not(talk: Talk, llm: LLM) -> None:
    prompt = [9] * 40

    def cached(salt: str) -> int:
        before = llm.stats().cached_tokens
        talk.complete(prompt=prompt, cache_salt=salt)
        return llm.stats().cached_tokens - before

    assert [cached("a"), cached("a"), cached("b")] == [0, 32, 0]


def test_a_bias_decides_a_greedy_choice(talk: Talk) -> None:
    answer = choice(talk.complete(logit_bias={"77": 100}, return_token_ids=True))

    assert answer["token_ids"] == [77, 77, 77]


def test_model_names_and_the_first_one_answers(llm: LLM) -> None:
    talk = Talk(llm, names=("alpha", "beta"))

    assert [talk.complete(model=name)["model"] for name in ("alpha", "beta", "", None)] == ["alpha"] * 4
