"""The YAML of records: words stay words, every value knows its line and its span."""

from __future__ import annotations

import datetime

import pytest

from parity.records.yamltext import Fault, read, write

TEXT = """title: Größe ≤ 3 — so
proposed: {on: 2026-12-01, by: "@who"}
exemplars:
- {scenario: a/b, oracle: [1, null]}
- {scenario: c/d, oracle: 64}
answer: no
flag: true
"""


def test_values_are_what_they_look_like() -> None:
    value = read(TEXT).value

    assert value["proposed"] == {"on": datetime.date(2026, 12, 1), "by": "@who"}
    assert value["exemplars"][0] == {"scenario": "a/b", "oracle": [1, None]}
    assert (value["answer"], value["flag"]) == ("no", True)


def test_a_value_has_the_line_of_its_key_and_its_own_span() -> None:
    document = read(TEXT)

    assert document.lines[("exemplars", 1, "oracle")] == 5
    assert document.lines[("answer",)] == 6
    start, stop = document.spans[("proposed",)]
    assert TEXT[start:stop] == '{on: 2026-12-01, by: "@who"}'
    start, stop = document.spans[("flag",)]
    assert TEXT[start:stop] == "true"


def test_what_is_written_reads_the_same_and_has_one_entry_a_line() -> None:
    value = read(TEXT).value

    written = write(value)

    assert read(written).value == value
    assert len(written.splitlines()) == 7
    assert "proposed: {on: 2026-12-01, by: '@who'}" in written


def test_text_that_looks_like_another_type_is_quoted() -> None:
    value = {"a": ["true", "null", "12", "2026-12-01", "1.5", "on"], "b": {"x": "", "y": "a: b", "z": "- c"}}

    assert read(write(value)).value == value


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [1, 2\n", 3, ""),
        ("a: 1\na: 2\n", 2, "key 'a' stands twice"),
        ("a: &x [1]\nb: *x\n", 1, "anchors"),
        ("a: 1\n? [1]\n: 2\n", 2, "a key is text"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, ""),
        ("a: 1\nb: 2026-99-99\n", 1, "is not YAML"),
        ("a: 1\n---\nb: 1\n", 2, ""),
        ("a: " + "[" * 2000 + "]" * 2000, 1, "nest"),
        ("a: " + "[" * 990 + "]" * 990, 1, "nest"),
    ],
)
def test_a_fault_names_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(Fault) as caught:
        read(text)

    assert message in caught.value.message
    assert caught.value.line == line
