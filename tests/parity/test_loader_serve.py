"""What the loader makes of a file of level serve, and what it says about one that cannot be played."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.errors import ExitCode, ScenarioError
from parity.loader import load
from parity.scenario import (
    AtOnce,
    Await,
    Case,
    Exchange,
    Exit,
    Leave,
    Open,
    Pause,
    ServerConfig,
    ServeScenario,
    Signal,
    Until,
)
from parity.serve.models import served_models
from parity.serve_form import ActionForm, ExchangeForm

PATH = "parity/scenarios/serving/example.yaml"

SERVE = """\
title: A script
level: serve
config: {model: tiny-opt, num_blocks: 8}
script:
"""
HEALTH = "  - send: {id: health, path: /health}\n"
STUCK = "  - open: {id: stuck, path: /v1/completions, body: {prompt: hello}}\n"


def load_text(text: str) -> list[Case]:
    return load(text.encode(), PATH)


def scenario(text: str) -> ServeScenario:
    (case,) = load_text(text)
    assert isinstance(case.scenario, ServeScenario)
    return case.scenario


def sent(action: str, model: str = "tiny-opt") -> Exchange:
    """The exchange that a script of this one action sends."""
    (exchange,) = scenario(SERVE.replace("tiny-opt", model) + f"  - send: {action}\n").exchanges
    return exchange


def body(action: str, model: str = "tiny-opt") -> Any:
    content = sent(action, model).content
    assert content is not None
    return json.loads(content)


def refusal(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_text(text)
    assert caught.value.exit_code == ExitCode.USAGE
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_server_has_every_default() -> None:
    (case,) = load_text(SERVE + HEALTH)

    assert (case.id, case.family, case.full, case.outcomes) == ("serving/example", "serving", False, None)
    assert isinstance(case.scenario, ServeScenario)
    assert case.scenario.fresh is False
    assert case.scenario.config == ServerConfig(
        model="tiny-opt",
        dtype="float32",
        block_size=16,
        num_blocks=8,
        max_model_len="auto",
        max_num_seqs=16,
        max_num_batched_tokens=2048,
        enable_chunked_prefill=True,
        long_prefill_token_threshold=0,
        scheduler_reserve_full_isl=True,
        enable_prefix_caching=True,
        scheduling_policy="fcfs",
        generation_config=None,
        override_generation_config=None,
        shutdown_timeout=0,
    )


def test_every_key_of_a_file_arrives() -> None:
    (case,) = load_text(
        """
title: All keys
level: serve
why: [https://example.org/1]
outcomes: 2
full: true
fresh: true
waive: [{property: answers, reason: it is stuck}]
config:
  model: smollm2-135m-instruct
  num_blocks: 4
  max_model_len: 64
  generation_config: {max_new_tokens: 20, nested: [{a: null}, true, 1.5]}
  override_generation_config: {}
script:
  - open: {id: a, path: /v1/completions, body: {prompt: hi}, deadline: 6, leave_after: 3}
  - at_once: [{id: b, path: /x}, {id: c, path: /y, method: DELETE}]
  - await: {id: a, what: first}
  - until: {running: 0, waiting: 1, within: 5}
  - leave: a
  - signal: TERM
  - pause: 0.1
  - signal: INT
  - exit: {within: 12}
"""
    )

    assert (case.outcomes, case.full, case.waive[0].property) == (2, True, "answers")
    played = case.scenario
    assert isinstance(played, ServeScenario)
    assert (played.fresh, played.ends_server) == (True, True)
    assert played.config.generation_config == {"max_new_tokens": 20, "nested": [{"a": None}, True, 1.5]}
    assert played.config.override_generation_config == {}
    opened, *rest = played.script
    assert isinstance(opened, Open)
    assert (opened.exchange.deadline, opened.exchange.leave_after) == (6.0, 3)
    assert rest == [
        AtOnce([Exchange("b", "GET", "/x", {}, None, None, None), Exchange("c", "DELETE", "/y", {}, None, None, None)]),
        Await("a", "first"),
        Until(0, 1, 5.0),
        Leave("a"),
        Signal("TERM"),
        Pause(0.1),
        Signal("INT"),
        Exit(12.0),
    ]  # fmt: skip


def test_the_explicit_form_is_read_back_as_it_was() -> None:
    played = scenario(SERVE + STUCK + HEALTH + "  - await: {id: stuck}\n")

    assert msgspec.json.decode(msgspec.json.encode(played), type=ServeScenario) == played


def test_actions_that_say_little_have_defaults() -> None:
    played = scenario(SERVE + STUCK + "  - await: {id: stuck}\n  - until: {waiting: 0}\n")

    assert played.script[1:] == [Await("stuck", "end"), Until(None, 0, 10.0)]


def test_a_body_is_posted_as_json_for_the_served_model() -> None:
    exchange = sent("{id: a, path: /v1/completions, body: {prompt: hi, n: 2, stop: [x, null], seed: 1.5}}")

    assert (exchange.method, exchange.headers) == ("POST", {"content-type": "application/json"})
    assert json.loads(exchange.content or "") == {
        "model": "tiny-opt",
        "prompt": "hi",
        "n": 2,
        "stop": ["x", None],
        "seed": 1.5,
    }


@pytest.mark.parametrize("given", ["[1]", "null", "text", "3", "{$json: '[1]'}"])
def test_a_body_that_is_no_map_goes_out_as_it_is(given: str) -> None:
    expected = {"null": None, "text": "text", "3": 3}.get(given, [1])

    assert body(f"{{id: a, path: /x, body: {given}}}") == expected


def test_a_body_may_name_another_model_and_another_content_type() -> None:
    exchange = sent(
        "{id: a, path: /x, body: {model: null}, headers: {Content-Type: text/plain}, method: PUT}"
    )

    assert (exchange.method, exchange.headers) == ("PUT", {"content-type": "text/plain"})
    assert json.loads(exchange.content or "") == {"model": None}


def test_raw_text_goes_out_as_it_stands_with_no_header_added() -> None:
    exchange = sent("""{id: a, path: /x, raw: '{"model": '}""")

    assert (exchange.method, exchange.content, exchange.headers) == ("POST", '{"model": ', {})


def test_a_patch_is_laid_over_the_body_and_keeps_numbers_of_any_size() -> None:
    patch = """'{"n": 36893488147419103232, "prompt": {"$ids": 2}, "extra": {"a": [true]}}'"""

    value = body(f"{{id: a, path: /x, body: {{prompt: hi, max_tokens: 1}}, patch: {patch}}}")

    assert value["n"] == 2**65
    assert (value["max_tokens"], value["extra"], len(value["prompt"])) == (1, {"a": [True]}, 2)


def test_generated_values_are_expanded_wherever_they_stand() -> None:
    value = body(
        "{id: a, path: /x, body: {prompt: [{$ids: 3}, {$ids: 3}], big: {$json: '[36893488147419103232]'},"
        " long: {$repeat: 'ab ', $times: 3}}}"
    )

    first, second = value["prompt"]
    assert len(first) == len(second) == 3
    assert first != second
    assert value["big"] == [2**65]
    assert value["long"] == "ab ab ab "


def test_ids_depend_on_the_exchange_or_on_a_seed_and_on_nothing_else() -> None:
    by_id = [body(f"{{id: {name}, path: /x, body: {{prompt: {{$ids: 8}}}}}}")["prompt"] for name in "aba"]
    seeded = [
        body(f"{{id: {name}, path: /x, body: {{prompt: {{$ids: {count}, $seed: s}}}}}}")["prompt"]
        for name, count in (("a", 8), ("b", 20))
    ]

    assert by_id[0] == by_id[2] != by_id[1]
    assert seeded[1][:8] == seeded[0] != by_id[0]


@pytest.mark.parametrize("name", served_models())
def test_generated_ids_are_never_special_and_always_have_a_text(name: str) -> None:
    row = served_models()[name]

    ids = body("{id: a, path: /x, body: {prompt: {$ids: 5000}}}", name)["prompt"]

    assert row.first_id > 2  # both models end with id 2
    assert min(ids) >= row.first_id
    assert max(ids) < row.end_id
    assert len(set(ids)) > 400


def test_a_sweep_fills_patches_and_generated_values() -> None:
    cases = load_text(
        SERVE.replace("A script", "${field} ${case}")
        + """  - send: {id: a, path: /x, body: {prompt: {$ids: "${ids}"}}, patch: "${patch}"}
sweep:
  id: ${field}-${case}
  axes:
    point:
      - {field: n, case: zero, ids: 1, patch: '{"n": 0}'}
      - {field: n, case: huge, ids: 2, patch: '{"n": 18446744073709551616}'}
"""
    )

    assert [case.id for case in cases] == ["serving/example/n-zero", "serving/example/n-huge"]
    bodies = [json.loads(case.scenario.exchanges[0].content) for case in cases]  # type: ignore[union-attr]
    assert [(len(sent["prompt"]), sent["n"]) for sent in bodies] == [(1, 0), (2, 2**64)]


def test_equal_questions_have_equal_hashes_and_a_changed_script_has_another() -> None:
    first, again, other = (load_text(SERVE + text)[0] for text in (HEALTH, HEALTH, HEALTH + STUCK))

    assert first.hash == again.hash != other.hash


REFUSALS = {
    "no blocks": (SERVE.replace(", num_blocks: 8", "") + HEALTH, r":3: config: key 'num_blocks' is missing"),
    "unknown model": (
        SERVE.replace("tiny-opt", "tiny-opd") + HEALTH,
        r":3: config.model: no model 'tiny-opd' in parity/serve/models.yaml — did you mean 'tiny-opt'",
    ),
    "no script": (SERVE.replace("script:\n", ""), r":1: key 'script' is missing"),
    "empty script": (SERVE.replace("script:", "script: []"), r":4: script: must not be empty"),
    "unknown level": (
        SERVE.replace("serve", "served") + HEALTH,
        r":2: level: 'served' is not a choice here — did you mean 'serve'",
    ),
    "requests at level serve": (
        SERVE + HEALTH + "requests: []\n",
        r":6: requests: level serve has no requests — use level: schedule",
    ),
    "a script at level schedule": (
        SERVE.replace("level: serve", "level: schedule") + HEALTH,
        r":4: script: level schedule has no script — use level: serve",
    ),
    "a key of the other configuration": (
        SERVE.replace("num_blocks: 8", "num_blocks: 8, watermark: 0.1") + HEALTH,
        r":3: config.watermark: unknown key 'watermark'",
    ),
    "a property of another level": (
        SERVE + HEALTH + "waive: [{property: terminates, reason: x}]\n",
        r":6: waive\[0\].property: level serve has no property 'terminates'",
    ),
    "unknown action": (
        SERVE + "  - sent: {id: a, path: /x}\n",
        r":5: script\[0\].sent: unknown key 'sent' — did you mean 'send'",
    ),
    "two actions in one item": (
        SERVE + HEALTH + "  - send: {id: b, path: /x}\n    pause: 1\n",
        r":6: script\[1\]: an item is one action, not send and pause — make it several items",
    ),
    "no action": (SERVE + HEALTH + "  - {}\n", r":6: script\[1\]: an item is one action — one of: send,"),
    "an action that is null": (SERVE + "  - leave: null\n", r":5: script\[0\]: an item is one action"),
    "one id twice": (
        SERVE + HEALTH + HEALTH,
        r":6: script\[1\].send.id: id 'health' is taken by script\[0\]",
    ),
    "one id twice at once": (
        SERVE + "  - at_once:\n    - {id: a, path: /x}\n    - {id: a, path: /y}\n",
        r":7: script\[0\].at_once\[1\].id: id 'a' is taken by script\[0\]",
    ),
    "an id with a space": (SERVE + "  - send: {id: 'a b', path: /x}\n", r"send.id: 'a b' is no id"),
    "a path without a slash": (SERVE + "  - send: {id: a, path: x}\n", r"send.path: 'x' is no path"),
    "no method": (SERVE + "  - send: {id: a, path: /x, method: get}\n", r"send.method: 'get' is no method"),
    "await of nobody": (
        SERVE + STUCK + "  - await: {id: stick}\n",
        r":6: script\[1\].await.id: no exchange 'stick' was opened before — did you mean 'stuck'",
    ),
    "await of what was sent": (
        SERVE + HEALTH + "  - await: {id: health}\n",
        r":6: script\[1\].await.id: no exchange 'health' was opened before — begin it with open",
    ),
    "await before it is opened": (SERVE + "  - await: {id: stuck}\n" + STUCK, r"await.id: no exchange"),
    "leave of nobody": (SERVE + "  - leave: a\n", r":5: script\[0\].leave: no exchange 'a' was opened"),
    "leave twice": (
        SERVE + STUCK + "  - leave: stuck\n  - leave: stuck\n",
        r":7: script\[2\].leave: the exchange 'stuck' has ended by then",
    ),
    "leave after its end": (
        SERVE + STUCK + "  - await: {id: stuck}\n  - leave: stuck\n",
        r":7: script\[2\].leave: the exchange 'stuck' has ended by then",
    ),
    "until nothing": (SERVE + "  - until: {within: 1}\n", r"script\[0\].until: waits for nothing"),
    "until for too long": (SERVE + "  - until: {waiting: 1, within: 61}\n", r"until.within: .*at most 60"),
    "exit without a signal": (
        SERVE + HEALTH + "  - exit: {}\n  - signal: TERM\n",
        r":6: script\[1\].exit: no signal was sent, so the server does not end",
    ),
    "a signal that nobody sends": (SERVE + "  - signal: KILL\n", r"signal: 'KILL' is not a choice"),
    "a pause that is too long": (SERVE + "  - pause: 11\n", r"pause: expected .*at most 10"),
    "no time to answer": (SERVE + "  - send: {id: a, path: /x, deadline: 0}\n", r"deadline: .*more than 0"),
    "body and raw": (
        SERVE + "  - send: {id: a, path: /x, body: {}, raw: ''}\n",
        r":5: script\[0\].send.raw: body and raw cannot both go out",
    ),
    "a patch without a body": (
        SERVE + "  - send:\n      {id: a, path: /x, patch: '{}'}\n",
        r":6: script\[0\].send.patch: there is no body to patch — give body as a map",
    ),
    "a patch of a list": (SERVE + "  - send: {id: a, path: /x, body: [], patch: '{}'}\n", r"no body with keys"),
    "a patch that is no JSON": (
        SERVE + "  - send: {id: a, path: /x, body: {}, patch: '{n: 1}'}\n",
        r"send.patch: '{n: 1}' is no JSON: ",
    ),
    "a patch that is no object": (
        SERVE + "  - send: {id: a, path: /x, body: {}, patch: '[1]'}\n",
        r"send.patch: '\[1\]' is no JSON object",
    ),
    "a patch that is no number": (
        SERVE + """  - send: {id: a, path: /x, body: {}, patch: '{"n": NaN}'}\n""",
        r"NaN is no JSON value",
    ),
    "a number that JSON does not have": (
        SERVE + "  - send: {id: a, path: /x, body: {n: 1.0e+999}}\n",
        r"send.body: holds a number that JSON does not have",
    ),
    "an unknown generated value": (
        SERVE + "  - send: {id: a, path: /x, body: {prompt: [{$id: 3}]}}\n",
        r"send.body.prompt\[0\]: '\$id' makes no value here — did you mean '\$ids'",
    ),
    "a generated value with a key too many": (
        SERVE + "  - send: {id: a, path: /x, body: {prompt: {$ids: 3, $sed: 1}}}\n",
        r"send.body.prompt: '\$sed' makes no value here — did you mean '\$seed'",
    ),
    "no ids": (SERVE + "  - send: {id: a, path: /x, body: {p: {$ids: 0}}}\n", r"body.p.\$ids: expected a whole"),
    "too many ids": (SERVE + "  - send: {id: a, path: /x, body: {p: {$ids: 2000000}}}\n", r"from 1 to 1048576"),
    "too long a text": (
        SERVE + "  - send: {id: a, path: /x, body: {p: {$repeat: ab, $times: 9000000}}}\n",
        r"body.p.\$times: expected a whole number from 1 to 8388608",
    ),
    "a text without a number of times": (
        SERVE + "  - send: {id: a, path: /x, body: {p: {$repeat: ab}}}\n",
        r"body.p.\$times: expected a whole number",
    ),
    "a generated text that is no JSON": (
        SERVE + "  - send: {id: a, path: /x, body: {p: {$json: '{'}}}\n",
        r"body.p.\$json: '{' is no JSON",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "pattern"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_fault_is_one_line_that_names_the_place_and_what_to_do(text: str, pattern: str) -> None:
    message = refusal(text)

    assert message.startswith(f"{PATH}:")
    assert re.search(pattern, message), message


def test_a_fault_in_a_sweep_names_the_point() -> None:
    text = (
        SERVE
        + """  - send: {id: a, path: /x, body: {}, patch: "${patch}"}
sweep: {id: "n${n}", axes: {n: [1], patch: ["${n}"]}}
"""
    )

    assert re.search(r":5: script\[0\].send.patch: .*\(at n=1, patch=1\)", refusal(text))


@pytest.mark.parametrize(
    ("form", "before"), [(ActionForm, "is never used again.\n\n"), (ExchangeForm, "An exchange:\n\n")]
)
def test_the_page_for_people_has_a_row_for_every_key(root: Path, form: type, before: str) -> None:
    table = (root / "docs/scenarios.md").read_text("utf-8").split(before)[1].split("\n\n")[0]

    shown = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)

    assert shown == [field.encode_name for field in msgspec.structs.fields(form)]
