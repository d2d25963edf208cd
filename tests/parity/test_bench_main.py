"""What the bench measures for a command line, and what it refuses before anything is started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from parity.bench.__main__ import Report, as_json, build_parser, main, parts, planned, show
from parity.bench.figures import OURS, TRANSFORMERS, UPSTREAM, Figure, Spread
from parity.bench.side import Answer, GenerateSide, Ready, SideFailed
from parity.bench.text import UNCACHED, ModelFacts, Plan, Start, measure_dtype, measure_prefix
from parity.errors import UsageError

SMALL = Plan(dtypes=("float32",), batches=(1, 2), rounds=3, prompt_tokens=4, new_tokens=3)
FACTS = ModelFacts(vocab_size=50, num_parameters=10)


class Fake:
    """A loaded side whose peak is `peak` bytes, of which `pool` are its pool; or one that never starts."""

    def __init__(self, name: str, seconds: float, peak: int = 1000, pool: int = 100, fault: str = "") -> None:
        self.name = name
        self.closed = False
        self._seconds, self._peak, self._pool, self._fault = seconds, peak, pool, fault

    def ready(self) -> Ready:
        if self._fault:
            raise SideFailed(self._fault)
        return Ready(self.name, "1", 2, self._pool)

    def generate(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> Answer:
        self.ready()
        tokens = [[1] * max_tokens for _ in prompts]
        return Answer(self._seconds, tokens, ["length"] * len(tokens), self._peak)

    def close(self) -> None:
        self.closed = True


def starting(*sides: Fake) -> Start:
    def start(_dtype: str, _pool_bytes: int) -> list[GenerateSide]:
        return list(sides)

    return start


def nobody(_line: str) -> None:
    """Progress that nobody reads."""


def test_all_cells_of_a_dtype_and_its_memory() -> None:
    sides = (
        Fake(OURS, 1.0, peak=640, pool=100),
        Fake(UPSTREAM, 2.0, peak=1240, pool=200),
        Fake(TRANSFORMERS, 0.5),
    )

    cells, figures = measure_dtype(starting(*sides), "float32", SMALL, FACTS, nobody)

    assert [cell.rates[OURS].median for cell in cells] == [3.0, 6.0]
    assert [figure.found.median for figure in figures if figure.found] == [2.0, 0.5, 2.0, 0.5, 0.5]
    assert [figure.met for figure in figures] == [True, False, True, False, True]
    assert all(side.closed for side in sides)


def test_a_side_that_never_starts_costs_its_own_figures_only() -> None:
    sides = (Fake(OURS, 1.0), Fake(UPSTREAM, 1.0, fault="upstream ended"), Fake(TRANSFORMERS, 1.0))

    _, figures = measure_dtype(starting(*sides), "float32", SMALL, FACTS, nobody)

    assert [figure.met for figure in figures] == [None, True, None, True, None]
    assert {figure.note for figure in figures if figure.found is None} == {"upstream ended"}


def test_the_prefix_figure_is_with_the_cache_over_without() -> None:
    figure = measure_prefix(starting(Fake(OURS, 1.0), Fake(UNCACHED, 5.0)), "float32", SMALL, FACTS, nobody)

    assert figure.found == Spread(5.0, 5.0, 5.0)
    assert figure.met is True


def test_the_prefix_figure_needs_both() -> None:
    sides = (Fake(OURS, 1.0), Fake(UNCACHED, 5.0, fault="no memory"))

    figure = measure_prefix(starting(*sides), "float32", SMALL, FACTS, nobody)

    assert (figure.found, figure.note) == (None, "no memory")


def test_quick_is_one_round_of_one_cell() -> None:
    args = build_parser().parse_args(["--quick"])
    plan = planned(args)

    assert (plan.dtypes, plan.batches, plan.rounds) == (("float32",), (8,), 1)
    assert parts(args) == {"steps", "text"}


def test_dtypes_and_batches_can_be_chosen() -> None:
    words = ["--quick", "--dtype", "bfloat16", "--batch", "2", "--batch", "4"]
    plan = planned(build_parser().parse_args(words))

    assert (plan.dtypes, plan.batches, plan.rounds) == (("bfloat16",), (2, 4), 1)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], {"steps", "hunt", "text", "prefix"}),
        (["--cold-start"], {"steps", "hunt", "text", "prefix", "cold-start"}),
        (["--quick", "--cold-start"], {"steps", "text", "cold-start"}),
        (["--only", "prefix"], {"prefix"}),
        (["--quick", "--only", "cold-start"], {"cold-start"}),
    ],
)
def test_the_parts_that_a_command_line_measures(words: list[str], wanted: set[str]) -> None:
    assert parts(build_parser().parse_args(words)) == wanted


def test_the_default_is_every_cell_three_times() -> None:
    plan = planned(build_parser().parse_args([]))

    assert (plan.dtypes, plan.batches, plan.rounds) == (("float32", "bfloat16"), (1, 8, 32), 3)
    assert (plan.prompt_tokens, plan.new_tokens) == (128, 64)


@pytest.mark.parametrize("words", [["--rounds", "2"], ["--rounds", "0"], ["--quick", "--rounds", "5"]])
def test_rounds_that_make_no_median_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 64

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bench: --")


def test_a_model_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "text", "--model", str(tmp_path / "none")]) == 64

    (line,) = capsys.readouterr().err.splitlines()
    assert "holds no model" in line
    assert "make model" in line


def test_the_numbers_of_a_model_are_counted_in_its_headers(tmp_path: Path) -> None:
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
            "b": {"dtype": "F32", "shape": [5], "data_offsets": [24, 44]},
        }
    ).encode()
    (tmp_path / "config.json").write_text('{"vocab_size": 7}', encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(44))

    assert ModelFacts.read(tmp_path) == ModelFacts(vocab_size=7, num_parameters=11)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"vocab_size": 7}', encoding="utf-8")

    with pytest.raises(UsageError, match=r"no \*\.safetensors"):
        ModelFacts.read(tmp_path)


@pytest.mark.parametrize(("load", "warned"), [(0.9, False), (1.1, True)])
def test_a_busy_machine_is_said(load: float, warned: bool) -> None:
    report = Report(2, load, SMALL, [], [Figure("a", Spread(1, 1, 1), 1.0, "at least")])

    assert ("the machine was busy" in show(report)) is warned


def test_the_json_says_of_each_figure_whether_it_is_met() -> None:
    one = Spread(1, 1, 1)
    figures = [
        Figure("a", one, 1.0, "at least"),
        Figure("b", one, 2.0, "at least"),
        Figure("c", None, 1.0, "at most"),
    ]

    values = json.loads(as_json(Report(2, 0.1, SMALL, [], figures)))

    assert [figure["met"] for figure in values["figures"]] == [True, False, None]
    assert (values["cpus"], values["plan"]["rounds"]) == (2, 3)
