"""A symbol's digest changes with its code and with nothing else."""

from __future__ import annotations

import ast
import textwrap

import pytest

from oracle.errors import OracleFault
from oracle.symbols import symbol_digest, symbol_source

MODULE = textwrap.dedent(
    '''
    import os

    BLOCK_SIZE = 16  # tokens
    LEFT, RIGHT = 1, 2
    LABEL: str = "a # b"

    if os.name == "posix":
        def place():
            return "here"
    else:
        def place():
            return "there"

    class Pool:
        """Holds blocks."""

        size: int = 4

        @property
        def free(self) -> int:  # counts
            # the null block is never free

            return self.size - 1

        def text(self):
            return """
      # no comment

    end   """

        class Inner:
            def deep(self): return 1

    async def outer(a, *, b=1):
        def inner():
            return a
        return inner
    '''
)


def test_comments_and_blank_lines_are_dropped_and_the_block_dedented() -> None:
    assert symbol_source(MODULE, "Pool.free") == (
        "@property\ndef free(self) -> int:\n    return self.size - 1\n"
    )


def test_a_string_survives_to_the_letter() -> None:
    assert symbol_source(MODULE, "LABEL") == 'LABEL: str = "a # b"\n'
    assert symbol_source(MODULE, "Pool.text") == (
        'def text(self):\n    return """\n  # no comment\n\nend   """\n'
    )


@pytest.mark.parametrize(
    ("qualname", "first"),
    [
        ("BLOCK_SIZE", "BLOCK_SIZE = 16"),
        ("RIGHT", "LEFT, RIGHT = 1, 2"),
        ("Pool", "class Pool:"),
        ("Pool.size", "size: int = 4"),
        ("Pool.Inner.deep", "def deep(self): return 1"),
        ("outer", "async def outer(a, *, b=1):"),
        ("outer.inner", "def inner():"),
    ],
)
def test_constants_classes_methods_and_functions_are_found(qualname: str, first: str) -> None:
    assert symbol_source(MODULE, qualname).split("\n")[0] == first


def test_a_symbol_defined_twice_is_both_definitions() -> None:
    assert symbol_source(MODULE, "place") == (
        'def place():\n    return "here"\ndef place():\n    return "there"\n'
    )


def test_what_is_kept_is_the_same_code() -> None:
    original = MODULE[MODULE.index("class Pool") : MODULE.index("async def outer")]

    assert ast.dump(ast.parse(symbol_source(MODULE, "Pool"))) == ast.dump(ast.parse(original))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# the null block is never free", "# another remark"),
        ("# the null block is never free\n", "\n\n\n"),
        ("  # counts", ""),
        ("import os", "import os\n\nFIRST = 1"),
        ("\n", "\r\n"),
        ("return self.size - 1", "return self.size - 1   "),
    ],
)
def test_a_digest_survives_remarks_blank_lines_and_moves(old: str, new: str) -> None:
    assert old in MODULE

    assert symbol_digest(MODULE.replace(old, new), "Pool.free") == symbol_digest(MODULE, "Pool.free")


@pytest.mark.parametrize(
    ("qualname", "old", "new"),
    [
        ("Pool.free", "self.size - 1", "self.size"),
        ("Pool.free", "@property", "@cached_property"),
        ("Pool", "Holds blocks.", "Holds pages."),
        ("LABEL", "a # b", "a # c"),
        ("Pool.text", "  # no comment", "    # no comment"),
        ("Pool.text", "end   ", "end"),
        ("outer", "b=1", "b=2"),
    ],
)
def test_a_digest_changes_with_the_code(qualname: str, old: str, new: str) -> None:
    assert old in MODULE

    assert symbol_digest(MODULE.replace(old, new), qualname) != symbol_digest(MODULE, qualname)


def test_a_formatted_string_of_several_lines_is_a_string() -> None:
    text = 'def f(a):\n    # remark\n    return f"""{a}\n    # kept\n\n    {a!r}"""  # gone\n'

    assert symbol_source(text, "f") == 'def f(a):\n    return f"""{a}\n    # kept\n\n    {a!r}"""\n'


def test_an_unknown_symbol_is_answered_with_the_nearest() -> None:
    with pytest.raises(OracleFault, match=r"no symbol 'Pool\.fre' — did you mean Pool\.free\?"):
        symbol_source(MODULE, "Pool.fre")


def test_a_text_that_is_no_python_is_refused() -> None:
    with pytest.raises(OracleFault, match="cannot be parsed"):
        symbol_source("def f(:\n", "f")
