"""A figure stands beside what it should reach, and where there is none the line says why."""

from __future__ import annotations

from parity.bench.figures import (
    MIB,
    OURS,
    TRANSFORMERS,
    UPSTREAM,
    Cell,
    Figure,
    Spread,
    figure_lines,
    memory,
    of_cell,
    rate_table,
)


def cell(dtype: str = "float32", upstream: float = 10.0) -> Cell:
    return Cell(
        dtype=dtype,
        batch=8,
        rates={
            OURS: Spread(12.0, 11.0, 13.5),
            UPSTREAM: Spread(upstream, upstream, upstream),
            TRANSFORMERS: Spread(15.0, 14.0, 16.0),
        },
        ratios={UPSTREAM: Spread(12 / upstream, 1.1, 1.35), TRANSFORMERS: Spread(0.8, 0.7, 0.9)},
        faults={},
        same=23,
        compared=24,
    )


def test_a_spread_is_median_smallest_and_largest() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


def test_the_target_against_upstream_depends_on_the_dtype() -> None:
    wanted = {dtype: [figure.target for figure in of_cell(cell(dtype))] for dtype in ("float32", "bfloat16")}

    assert wanted == {"float32": [1.2, 0.9], "bfloat16": [1.0, 0.9]}


def test_the_median_decides_and_the_bound_itself_is_enough() -> None:
    against_upstream, against_transformers = of_cell(cell())

    assert against_upstream.met is True
    assert against_transformers.met is False
    assert Figure("x", Spread(0.5, 0.1, 2.0), 0.5, "at most").met is True
    assert Figure("x", Spread(0.51, 0.1, 2.0), 0.5, "at most").met is False


def test_a_side_without_a_rate_leaves_a_figure_that_says_why() -> None:
    broken = Cell("float32", 1, {}, {}, {UPSTREAM: "upstream ended"})

    figure = of_cell(broken)[0]

    assert (figure.found, figure.met, figure.note) == (None, None, "upstream ended")


def test_ours_without_a_rate_is_the_reason_for_every_figure() -> None:
    broken = Cell("float32", 1, {UPSTREAM: Spread(1, 1, 1)}, {}, {OURS: "ours ended"})

    assert [figure.note for figure in of_cell(broken)] == ["ours ended", "ours ended"]


def test_the_rate_table() -> None:
    table = rate_table([cell(), Cell("bfloat16", 1, {OURS: Spread(5.0, 5.0, 5.0)}, {}, {UPSTREAM: "gone"})])

    assert table.splitlines() == [
        "dtype     batch  ours                 upstream  transformers         same tokens",
        "float32   8      12.0 (11.0 to 13.5)  10.0      15.0 (14.0 to 16.0)  23/24",
        "bfloat16  1      5.0                  no rate   no rate              -",
    ]


def test_the_lines_of_figures() -> None:
    lines = figure_lines(
        [
            Figure("a", Spread(1.5, 1.25, 1.75), 1.2, "at least"),
            Figure("longer", Spread(0.75, 0.75, 0.75), 0.5, "at most", "9 s, 12 s"),
            Figure("b", None, 4.0, "at least", "ours ended"),
            Figure("c", None, 4.0, "at least"),
        ]
    )

    assert lines.splitlines() == [
        "met    a       1.50 (1.25 to 1.75); should be at least 1.2",
        "MISSED longer  0.75; should be at most 0.5 (9 s, 12 s)",
        "none   b       ours ended",
        "none   c       not measured",
    ]


def test_memory_is_compared_in_bytes_beyond_weights_and_pool() -> None:
    figure = memory("float32", 300 * MIB, 400 * MIB)

    assert figure.found == Spread(0.75, 0.75, 0.75)
    assert figure.met is True
    assert figure.note == "300 MiB, 400 MiB"


def test_memory_that_is_not_known_makes_no_figure() -> None:
    assert memory("float32", "ours ended", 5).note == "ours ended"
    assert memory("float32", 5, "upstream ended").met is None
    assert memory("float32", 5, -3).found is None
