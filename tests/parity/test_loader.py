"""What the loader makes of a scenario file, and what it says about one that cannot be played."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parity.errors import ExitCode, ScenarioError
from parity.loader import load, load_file
from parity.scenario import Abort, Case, Reset, Waiver

PATH = "parity/scenarios/preemption/example.yaml"

PLAN = """\
title: A plan
level: plan
config: {model: tiny-opt, num_blocks: 8}
"""
SCHEDULE = """\
title: A schedule
level: schedule
config:
  model: tiny-opt
  num_blocks: 8
requests:
  - {id: r0, prompt: 8, max_tokens: 4}
"""


def load_text(text: str, path: str = PATH) -> list[Case]:
    return load(text.encode(), path)


def refusal(text: str, path: str = PATH) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_text(text, path)
    assert caught.value.exit_code == ExitCode.USAGE
    message = str(caught.value)
    assert "\n" not in message
    assert "Traceback" not in message
    return message


def test_a_plan_has_every_default_and_no_timeline() -> None:
    (case,) = load_text(PLAN)

    assert (case.id, case.family, case.path, case.line) == ("preemption/example", "preemption", PATH, 1)
    assert case.scenario.timeline is None
    config = msgspec.to_builtins(case.scenario.config)
    assert config.pop("model")["name"] == "tiny-opt"
    assert config == {
        "dtype": "float32",
        "block_size": 16,
        "num_blocks": 8,
        "kv_cache_memory_bytes": 1073741824,
        "max_model_len": "auto",
        "max_num_seqs": 16,
        "max_num_batched_tokens": 8192,
        "enable_chunked_prefill": True,
        "long_prefill_token_threshold": 0,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "enable_prefix_caching": True,
        "scheduling_policy": "fcfs",
    }


def test_every_key_of_a_file_arrives_on_the_wire() -> None:
    (case,) = load_text(
        """
title: All keys
level: schedule
why: [https://example.org/1]
config: {model: opt-125m, watermark: 0, max_model_len: 64, scheduling_policy: priority}
max_steps: 7
outcomes: 3
waive: [{property: terminates, reason: it is a livelock}]
requests:
  - id: a
    at: 2
    stamp: 9
    prompt: [5, 6]
    max_tokens: 3
    min_tokens: 1
    output: [7, 2]
    eos_token_id: 2
    ignore_eos: true
    stop_token_ids: [3, 4]
    priority: -1
    cache_salt: red
    prompt_logprobs: 0
aborts: [{id: a, at: 4}, {id: a, at: 5, when: before_update}]
resets: [{at: 1}, {at: 2, running: true}]
"""
    )

    assert (case.title, case.why, case.outcomes) == ("All keys", ["https://example.org/1"], 3)
    assert case.waive == [Waiver(property="terminates", reason="it is a livelock")]
    timeline = case.scenario.timeline
    assert timeline is not None
    request = msgspec.to_builtins(timeline.requests[0])
    assert request.pop("output")[:2] == [7, 2]
    assert request == {
        "id": "a",
        "at": 2,
        "arrival": 9,
        "prompt": [5, 6],
        "max_tokens": 3,
        "min_tokens": 1,
        "eos_token_id": 2,
        "ignore_eos": True,
        "stop_token_ids": [3, 4],
        "priority": -1,
        "cache_salt": "red",
        "prompt_logprobs": 0,
    }
    assert timeline.aborts == [
        Abort(id="a", at=4, when="before_schedule"),
        Abort(id="a", at=5, when="before_update"),
    ]
    assert timeline.resets == [Reset(at=1, running=False), Reset(at=2, running=True)]
    assert timeline.max_steps == 7
    assert case.scenario.config.watermark == 0.0


def test_stamps_follow_the_order_of_adding_and_requests_keep_the_order_of_the_file() -> None:
    (case,) = load_text(
        SCHEDULE
        + "  - {id: late, at: 5, prompt: 8, max_tokens: 4}\n"
        + "  - {id: own, at: 1, prompt: 8, max_tokens: 4, stamp: 0}\n"
        + "  - {id: r1, at: 0, prompt: 8, max_tokens: 4}\n"
    )

    assert case.scenario.timeline is not None
    stamps = [(request.id, request.arrival) for request in case.scenario.timeline.requests]
    assert stamps == [("r0", 0), ("late", 3), ("own", 0), ("r1", 1)]


def test_the_hash_depends_on_what_is_asked_and_not_on_how_it_is_said() -> None:
    (plain,) = load_text(SCHEDULE)
    (spelled,) = load_text(
        SCHEDULE.replace("A schedule", "Other words").replace(
            "num_blocks: 8", "num_blocks: 8\n  block_size: 16"
        ),
        "parity/scenarios/caching/other.yaml",
    )
    (changed,) = load_text(SCHEDULE.replace("prompt: 8", "prompt: 9"))

    assert plain.hash == spelled.hash
    assert plain.hash != changed.hash


REFUSALS = {
    "unknown key at the top": (PLAN + "tilte: x\n", r"example.yaml:4: tilte: .*did you mean 'title'"),
    "unknown key of config": (
        PLAN.replace("num_blocks", "num_blcks"),
        r":3: config.num_blcks: .*did you mean 'num_blocks'",
    ),
    "unknown key of a request": (
        SCHEDULE.replace("max_tokens", "max_token"),
        r":7: requests\[0\].max_token: .*'max_tokens'",
    ),
    "unknown key that resembles nothing": (
        PLAN + "zzz: 1\n",
        r":4: zzz: unknown key 'zzz' — one of: title, ",
    ),
    "missing title": (PLAN.replace("title: A plan\n", ""), r"key 'title' is missing"),
    "missing model": (
        PLAN.replace("model: tiny-opt, ", ""),
        r":3: config: key 'model' is missing",
    ),
    "unknown model": (
        PLAN.replace("tiny-opt", "tiny-op"),
        r":3: config.model: no model 'tiny-op' .*'tiny-opt'",
    ),
    "empty title": (PLAN.replace("A plan", "''"), r":1: title: must not be empty"),
    "blank title": (PLAN.replace("A plan", "'  '"), r":1: title: must not be empty"),
    "title of two lines": (PLAN.replace("A plan", '"a\\nb"'), r":1: title: a title is one line"),
    "unknown level": (PLAN.replace("level: plan", "level: plans"), r":2: level: 'plans' .*'plan'"),
    "text for a number": (PLAN.replace("8}", "eight}"), r":3: config.num_blocks: .*number.*'eight'"),
    "boolean for a number": (
        PLAN.replace("8}", "off}"),
        r":3: config.num_blocks: expected a whole number.*, got a boolean \(off\)",
    ),
    "boolean for a text": (
        SCHEDULE.replace("id: r0", "id: no"),
        r":7: requests\[0\].id: expected a text, got a boolean \(no\)",
    ),
    "number for a text": (
        SCHEDULE.replace("id: r0", "id: 7"),
        r"requests\[0\].id: .*got the number 7 — quote",
    ),
    "number for a boolean": (
        PLAN.replace("8}", "8, enable_prefix_caching: 1}"),
        r"config.enable_prefix_caching: expected true or false, got the number 1",
    ),
    "null where none may be": (
        PLAN.replace("num_blocks: 8", "block_size: null"),
        r"config.block_size: .*null",
    ),
    "list for a map": (
        PLAN.replace("{model: tiny-opt, num_blocks: 8}", "[1]"),
        r":3: config: .*a map, got a list",
    ),
    "fraction for a number": (PLAN.replace("8}", "8.5}"), r"config.num_blocks: .*got the number 8.5"),
    "negative blocks": (
        PLAN.replace("8}", "-1}"),
        r"config.num_blocks: .*at least 0 and at most 2097152, got -1",
    ),
    "negative bytes": (PLAN.replace("8}", "8, kv_cache_memory_bytes: -1}"), r"at least 0, got -1"),
    "block size zero": (PLAN.replace("8}", "8, block_size: 0}"), r"config.block_size: .*at least 1, got 0"),
    "watermark of one": (PLAN.replace("8}", "8, watermark: 1}"), r"config.watermark: .*below 1, got 1"),
    "watermark of infinity": (PLAN.replace("8}", "8, watermark: .inf}"), r":3: .inf is no plain decimal"),
    "octal number": (PLAN.replace("8}", "010}"), r":3: 010 is no plain decimal number"),
    "base 60 number": (PLAN.replace("8}", "1:30}"), r":3: 1:30 is no plain decimal number"),
    "number of 70 bits": (PLAN.replace("8}", f"{2**70}}}"), r":3: \d+ is no plain decimal number"),
    "number of 5000 digits": (PLAN.replace("8}", "9" * 5000 + "}"), r":3: 9+ is no plain decimal number"),
    "date": (PLAN.replace("A plan", "2026-01-01"), r":1: 2026-01-01 is read as a date"),
    "tag": (PLAN.replace("A plan", "!!python/name:os.system x"), r":1: .*not used here"),
    "binary": (PLAN.replace("A plan", "!!binary aGk="), r":1: .*not used here"),
    "anchor": (PLAN + "why: &a [https://e.org]\nwaive: *a\n", r":4: anchors and aliases are not used"),
    "anchor in itself": (PLAN + "why: &a [*a]\n", r":4: "),
    "no link": (PLAN + "why: [issue 5]\n", r":4: why\[0\]: 'issue 5' is no link"),
    "property of the other level": (
        PLAN + "waive: [{property: terminates, reason: x}]\n",
        r":4: waive\[0\].property: level plan has no property 'terminates'",
    ),
    "misspelt property": (
        SCHEDULE + "waive:\n  - {property: terminate, reason: x}\n",
        r":9: waive\[0\].property: .*did you mean 'terminates'",
    ),
    "waiver without a reason": (SCHEDULE + "waive: [{property: terminates}]\n", r"key 'reason' is missing"),
    "requests in a plan": (SCHEDULE.replace("level: schedule", "level: plan"), r":6: requests: level plan"),
    "aborts in a plan": (PLAN + "aborts: []\n", r":4: aborts: level plan runs nothing"),
    "max_steps in a plan": (PLAN + "max_steps: 5\n", r":4: max_steps: level plan runs nothing"),
    "no requests in a schedule": (
        PLAN.replace("level: plan", "level: schedule"),
        r"key 'requests' is missing",
    ),
    "empty requests": (
        PLAN.replace("level: plan", "level: schedule") + "requests: []\n",
        r":4: requests: must not be empty",
    ),
    "two requests of one id": (
        SCHEDULE + "  - {id: r0, prompt: 8, max_tokens: 4}\n",
        r":8: requests\[1\].id: id 'r0' is taken by requests\[0\]",
    ),
    "id with a space": (SCHEDULE.replace("id: r0", "id: 'r 0'"), r"requests\[0\].id: 'r 0' is no id"),
    "abort of nobody": (
        SCHEDULE + "aborts:\n  - {id: r1, at: 2}\n",
        r":9: aborts\[0\].id: no request 'r1' to abort — did you mean 'r0'",
    ),
    "abort at an unknown moment": (
        SCHEDULE + "aborts: [{id: r0, at: 1, when: later}]\n",
        r"aborts\[0\].when",
    ),
    "reset without a step": (
        SCHEDULE + "resets: [{running: true}]\n",
        r":8: resets\[0\]: key 'at' is missing",
    ),
    "min above max": (
        SCHEDULE.replace("max_tokens: 4", "max_tokens: 4, min_tokens: 5"),
        r"requests\[0\].min_tokens: min_tokens 5 is above max_tokens 4",
    ),
    "no tokens": (
        SCHEDULE.replace("max_tokens: 4", "max_tokens: 0"),
        r"requests\[0\].max_tokens: .*at least 1",
    ),
    "empty prompt": (SCHEDULE.replace("prompt: 8", "prompt: []"), r"requests\[0\].prompt: must not be empty"),
    "EOS outside the vocabulary": (
        SCHEDULE.replace("max_tokens: 4", "max_tokens: 4, eos_token_id: 60000"),
        r"requests\[0\].eos_token_id: id 60000 is outside the model's vocabulary of 50272",
    ),
    "key twice": (PLAN + "level: plan\n", r":4: key 'level' stands twice, first in line 2"),
    "key that is no text": (PLAN + "5: x\n", r":4: a key must be text, and YAML reads '5' as int"),
    "list as a key": (PLAN + "? [a]\n: x\n", r":4: a key must be text, not a list"),
    "tab": (PLAN.replace("\nconfig: {", "\nconfig:\n\tmodel: x\nother: {"), r":4: is not valid YAML: .*tab"),
    "broken YAML": (PLAN + "why: [", r"is not valid YAML"),
    "two documents": (PLAN + "---\ntitle: x\n", r":4: is not valid YAML: .*another document"),
    "control character": (PLAN + "why: ['\x01']\n", r":4: is not valid YAML"),
    "empty file": ("", r"example.yaml:1: is empty"),
    "only a comment": ("# nothing\n", r"example.yaml:1: is empty"),
    "list at the top": ("- a\n", r":1: a file holds one map"),
    "deep nesting": (PLAN + "why: " + "[" * 900 + "]" * 900 + "\n", r"nested too deeply"),
    "template without a sweep": (PLAN.replace("8}", '"${n}"}'), r":3: config.num_blocks: is a template"),
}


@pytest.mark.parametrize(("text", "pattern"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_fault_is_one_line_that_names_the_place_and_what_to_do(text: str, pattern: str) -> None:
    message = refusal(text)

    assert message.startswith(f"{PATH}:")
    assert re.search(pattern, message), message


def test_a_file_that_is_not_utf8_is_refused_with_its_line() -> None:
    with pytest.raises(ScenarioError, match=r"example.yaml:2: is not UTF-8") as caught:
        load(b"title: x\nlevel: \xff\n", PATH)

    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("parity/scenarios/cacheing/x.yaml", "the folder 'cacheing' is no family — did you mean 'caching'"),
        ("parity/scenarios/caching/x.yml", "ends in .yaml"),
        ("parity/scenarios/caching/Two Words.yaml", "a-z, 0-9 and -"),
    ],
)
def test_a_path_that_gives_no_id_is_refused(path: str, pattern: str) -> None:
    assert pattern in refusal(PLAN, path)


def test_a_missing_file_is_refused_without_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^caching/x.yaml: cannot be read: No such file"):
        load_file(tmp_path / "caching" / "x.yaml", tmp_path)


@pytest.mark.parametrize(
    "name", ["deep nesting", "key twice", "empty file", "anchor in itself", "two documents"]
)
def test_a_pyyaml_without_libyaml_refuses_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.document._LOADER", yaml.SafeLoader)
    text, pattern = REFUSALS[name]

    message = refusal(text)

    assert re.search(pattern, message), message


def test_the_examples_of_the_guide_are_scenarios(root: Path) -> None:
    guide = (root / "docs/scenarios.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```yaml\n(.*?)^```", guide, flags=re.MULTILINE | re.DOTALL)

    assert [len(load_text(example)) for example in examples] == [1, 1, 3 * sum(range(3, 11)) - 8]


@given(st.binary(max_size=300))
def test_any_bytes_load_or_are_refused(data: bytes) -> None:
    _loads_or_refuses(data)


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["", "auto", "r0", "${x}", "off", "2026-01-01", "\t", "a\nb", "é", "terminates"])
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_TEMPLATE = {
    "title": "x",
    "level": "schedule",
    "why": ["https://e.org"],
    "config": {"model": "tiny-opt", "num_blocks": "${n}", "watermark": 0.5, "max_model_len": 64},
    "max_steps": 5,
    "requests": [
        {"id": "r0", "prompt": [1, {"new": 3}], "max_tokens": 4, "output": [5], "stop_token_ids": [6]},
        {"id": "r1", "prompt": [{"of": "r0", "take": 2}, {"output_of": "r0"}], "max_tokens": 2, "seed": 4},
    ],
    "aborts": [{"id": "r1", "at": 2}],
    "resets": [{"at": 1, "running": True}],
    "waive": [{"property": "terminates", "reason": "y"}],
    "outcomes": 2,
    "sweep": {"id": "n-${n}-${m}", "axes": {"n": {"from": 1, "to": 3}, "m": [1, {"k": 2}]}, "where": "n < 3"},
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in _places(item, (*path, key)))]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=400)
@given(st.sampled_from(_places(_TEMPLATE)[1:]), _VALUES, st.booleans())
def test_a_file_with_any_one_value_replaced_loads_or_is_refused(
    place: tuple[Any, ...], value: Any, remove: bool
) -> None:
    document: Any = copy.deepcopy(_TEMPLATE)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    if remove:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value

    _loads_or_refuses(yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass"))


def _loads_or_refuses(data: bytes) -> None:
    cases: list[Case] = []
    refused = ""
    try:
        cases = load(data, PATH)
    except ScenarioError as error:
        refused = str(error)

    assert bool(cases) != bool(refused)
    assert not refused or (refused.startswith(PATH) and "\n" not in refused)
    for case in cases:
        wire = msgspec.json.encode(case.scenario)
        assert msgspec.json.decode(wire, type=type(case.scenario)) == case.scenario
