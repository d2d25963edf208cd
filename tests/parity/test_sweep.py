"""Sweeps: axes, templates, expressions, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.document import Fault
from parity.errors import ScenarioError
from parity.expression import evaluate, holds
from parity.loader import load
from parity.scenario import Case

PATH = "parity/scenarios/block-count/example.yaml"
HEAD = """\
title: "${n} blocks, length ${len}"
level: plan
config: {model: tiny-opt, num_blocks: "${n}", max_model_len: "${len}"}
"""


def cases(text: str) -> list[Case]:
    return load((HEAD + text).encode(), PATH)


def refusal(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        cases(text)
    return str(caught.value)


def points(text: str) -> list[tuple[int | None, int | str]]:
    return [(case.scenario.config.num_blocks, case.scenario.config.max_model_len) for case in cases(text)]


def test_axes_are_multiplied_and_a_later_one_may_use_an_earlier() -> None:
    text = "sweep: {id: '${n}-${len}', axes: {n: [2, 3], len: ['${n * 16 - 1}', '${n * 16}', auto]}}\n"

    assert points(text) == [(2, 31), (2, 32), (2, "auto"), (3, 47), (3, 48), (3, "auto")]
    assert [case.id for case in cases(text)][:2] == ["block-count/example/2-31", "block-count/example/2-32"]
    assert cases(text)[2].title == "2 blocks, length auto"


def test_a_range_includes_both_ends_and_may_be_calculated() -> None:
    text = "sweep: {id: '${n}-${len}', axes: {n: [2, 4], len: {from: n * 8, to: (n + 1) * 8, step: 4}}}\n"

    assert points(text) == [(2, 16), (2, 20), (2, 24), (4, 32), (4, 36), (4, 40)]


def test_an_axis_of_maps_binds_several_names_at_once() -> None:
    text = "sweep: {id: '${name}', axes: {row: [{name: a, n: 2, len: 5}, {name: b, n: 3, len: auto}]}}\n"

    assert points(text) == [(2, 5), (3, "auto")]
    assert [case.id.rsplit("/", 1)[1] for case in cases(text)] == ["a", "b"]


def test_where_leaves_points_out() -> None:
    text = (
        "sweep: {id: '${n}-${len}', where: 'len % 2 == 1 and not n == 3',"
        " axes: {n: [2, 3], len: {from: 1, to: 4}}}\n"
    )

    assert points(text) == [(2, 1), (2, 3)]


def test_values_keep_their_type_alone_and_read_as_yaml_inside_a_text() -> None:
    (case,) = load(
        b"""
title: caching ${c}, dtype ${dtype}, salt ${none}, watermark ${w}
level: schedule
config: {model: tiny-opt, enable_prefix_caching: "${c}", dtype: "${dtype}", watermark: "${w}"}
requests: [{id: "r${n}", prompt: 1, max_tokens: "${n}", cache_salt: "${none}"}]
sweep: {id: only, axes: {row: [{c: false, dtype: bfloat16, none: null, w: 0.25, n: 3}]}}
""",
        PATH,
    )

    assert case.title == "caching false, dtype bfloat16, salt null, watermark 0.25"
    config = case.scenario.config
    assert (config.enable_prefix_caching, config.dtype, config.watermark) == (False, "bfloat16", 0.25)
    assert case.scenario.timeline is not None
    request = case.scenario.timeline.requests[0]
    assert (request.id, request.max_tokens, request.cache_salt) == ("r3", 3, None)


REFUSALS = {
    "two points of one id": (
        "sweep: {id: 'n-${n}', axes: {n: [2], len: [1, 2]}}\n",
        r":4: sweep.id: two points have the id 'n-2'",
    ),
    "no axis": ("sweep: {id: x, axes: {}}\n", r"sweep.axes: a sweep needs an axis"),
    "empty axis": ("sweep: {id: x, axes: {n: []}}\n", r"sweep.axes.n: must not be empty"),
    "no id": ("sweep: {axes: {n: [1]}}\n", r"sweep: key 'id' is missing"),
    "unknown key": ("sweep: {id: x, axis: {n: [1]}}\n", r"sweep.axis: .*did you mean 'axes'"),
    "no point left": (
        "sweep: {id: '${n}', axes: {n: [1], len: [1]}, where: n > 1}\n",
        r":4: sweep: the sweep has no point",
    ),
    "later axis": (
        "sweep: {id: '${n}', axes: {n: ['${len}'], len: [1]}}\n",
        r"sweep.axes.n\[0\]: 'len': no axis 'len' before this place",
    ),
    "unknown name in a template": (
        "sweep: {id: '${m}', axes: {n: [1], len: [1]}}\n",
        r"sweep.id: 'm': no axis 'm'",
    ),
    "name bound twice": (
        "sweep: {id: '${n}', axes: {n: [1], row: [{n: 2, len: 1}]}}\n",
        r"sweep.axes.row: 'n' is bound twice",
    ),
    "axis name": ("sweep: {id: x, axes: {N: [1]}}\n", r"sweep.axes.N: 'N' is no axis name"),
    "name of a row": ("sweep: {id: x, axes: {r: [{'a b': 1}]}}\n", r"'a b' is no axis name"),
    "suffix": (
        "sweep: {id: 'N ${n}', axes: {n: [1], len: [1]}}\n",
        r":4: sweep.id: 'N 1' cannot end an id",
    ),
    "call": (
        "sweep: {id: '${n}', axes: {n: [\"${__import__('os')}\"]}}\n",
        r"uses what an expression may not",
    ),
    "power": ("sweep: {id: '${n}', axes: {n: ['${9 ** 9}']}}\n", r"uses what an expression may not"),
    "fraction": ("sweep: {id: '${n}', axes: {n: ['${1 / 2}']}}\n", r"uses what an expression may not"),
    "division by zero": ("sweep: {id: '${n}', axes: {n: ['${1 // 0}']}}\n", r"divides by zero"),
    "overflow": (
        "sweep: {id: '${n}', axes: {n: ['${9223372036854775807 * 9}']}}\n",
        r"leaves the range of 64 bits",
    ),
    "syntax": ("sweep: {id: '${n}', axes: {n: ['${1 +}']}}\n", r"'1 \+' is no expression"),
    "open template": ("sweep: {id: '${n', axes: {n: [1], len: [1]}}\n", r"template that does not end"),
    "arithmetic with text": (
        "sweep: {id: '${n}', axes: {n: [a], len: ['${n + 1}']}}\n",
        r"calculates with 'a', which is no whole number",
    ),
    "text as a bound": (
        "sweep: {id: '${n}', axes: {n: {from: 1, to: \"'x'\"}}}\n",
        r"sweep.axes.n.to: expected",
    ),
    "step of zero": (
        "sweep: {id: '${n}', axes: {n: {from: 1, to: 2, step: 0}}}\n",
        r"sweep.axes.n.step: .*least 1",
    ),
    "endless range": (
        "sweep: {id: '${n}', axes: {n: {from: 0, to: 90000000000}}}\n",
        r"more than 5000 values",
    ),
    "endless product": (
        "sweep: {id: '${n}-${len}-${k}', axes: {n: {from: 1, to: 99}, len: {from: 1, to: 99}, k: [1]}}\n",
        r"more than 5000 points",
    ),
    "where that is no condition": (
        "sweep: {id: '${n}', axes: {n: [1], len: [1]}, where: n + 1}\n",
        r"sweep.where: 'n \+ 1' is no condition",
    ),
    "where that compares apples": (
        "sweep: {id: '${n}', axes: {n: [1], len: [auto]}, where: len < n}\n",
        r"compares 'auto' with 1",
    ),
    "value that does not fit its key": (
        "sweep: {id: 'p${len}', axes: {n: [-3], len: [1]}}\n",
        r":3: config.num_blocks: .*at least 0 and at most 2097152, got -3 \(at n=-3, len=1\)",
    ),
}


@pytest.mark.parametrize(("text", "pattern"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_fault_of_a_sweep_names_its_place_and_its_point(text: str, pattern: str) -> None:
    message = refusal(text)

    assert "\n" not in message
    assert re.search(pattern, message), message


@given(st.integers(-99, 99), st.integers(-99, 99), st.integers(1, 99))
def test_arithmetic_is_that_of_whole_numbers(a: int, b: int, c: int) -> None:
    names = {"a": a, "b": b, "c": c}

    assert evaluate("a + b * (a - c) // c - -b % c", names) == a + b * (a - c) // c - -b % c
    assert holds("a < b <= c or a != 3 and not c == 1", names) == (a < b <= c or (a != 3 and c != 1))


@given(st.text(alphabet="ab01+-*/%()<>=! .'\"[]{}:,\\\x00andotr", max_size=30))
def test_any_text_is_a_value_or_a_fault(text: str) -> None:
    for calculate in (evaluate, holds):
        try:
            value = calculate(text, {"a": 1, "b": "x"})
        except Fault:
            continue
        assert isinstance(value, int | str | bool)
