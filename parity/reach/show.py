"""What `parity coverage` prints: a table for people and an object for scripts, both from the same figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.table import Table

from parity.reach.decisions import Decisions, Judged, states
from parity.reach.survey import File
from parity.report.progress import counted


def table(files: Sequence[File], judged: Judged | None) -> Table:
    """One row a file and one for all. Without a judgement only what was reached is told.

    Functions are entered, in scope or out of it; what is to do are functions and branches.
    """
    result = Table(box=None, pad_edge=False)
    result.add_column("file", no_wrap=True)
    for name in ["lines", "branches", "entered", *(["in scope", "out", "to do"] if judged else ["of"])]:
        result.add_column(name, justify="right", no_wrap=True)
    for file in files:
        result.add_row(file.path, *_cells([file], judged))
    result.add_row("all", *_cells(files, judged), style="bold")
    return result


def _cells(files: Sequence[File], judged: Judged | None) -> list[str]:
    functions = [function for file in files for function in file.functions]
    entered = sum(function.entered for function in functions)
    cells = [
        _share(sum(file.lines[0] for file in files), sum(file.lines[1] for file in files)),
        _share(sum(file.jumps[0] for file in files), sum(file.jumps[1] for file in files)),
        str(entered),
    ]
    if judged is None:
        return [*cells, str(len(functions))]
    paths = {file.path for file in files}
    to_do = [sum(_path_of(name) in paths for name in some) for some in (judged.functions, judged.branches)]
    in_scope = entered + to_do[0]
    return [*cells, str(in_scope), str(len(functions) - in_scope), str(sum(to_do))]


def _path_of(name: str) -> str:
    return name.partition("::")[0]


def _share(reached: int, total: int) -> str:
    return f"{100 * reached / total:.0f} %" if total else "–"


def missing_lines(files: Sequence[File]) -> list[str]:
    """One line a file that has any: the lines not executed, as ranges."""
    return [f"{file.path}: {_ranges(file.missing)}" for file in files if file.missing]


def _ranges(lines: Sequence[int]) -> str:
    """Neighbours joined: `3-5, 8`."""
    runs = [
        [line for _, line in run] for _, run in groupby(enumerate(lines), key=lambda item: item[1] - item[0])
    ]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def verdict_lines(files: Sequence[File], judged: Judged, decisions: Decisions) -> list[str]:
    """What is to do and what is stale, one line each, and the reasons with their numbers."""
    count = Counter(states(files).values())
    lines = [
        f"branches of the functions that are entered: {count['reached']} reached, {count['missed']} not,"
        f" {count['behind']} behind those"
    ]
    lines += [f"to do: never entered: {name}" for name in judged.functions]
    lines += [f"to do: never reached: {key}" for key in judged.branches]
    lines += [f"stale: {stale.pattern}: {stale.why}" for stale in judged.stale]
    lines += ["out of scope, because"]
    for name, (functions, branches) in reasons(judged, decisions).items():
        what = f"{counted(functions, 'function')}, {branches} branch{'' if branches == 1 else 'es'}"
        lines.append(f"  {name} ({what}): {decisions.reasons[name]}")
    return lines


def reasons(judged: Judged, decisions: Decisions) -> dict[str, tuple[int, int]]:
    """Functions and branches that each reason puts out of scope, in the file's order."""
    functions, branches = Counter(judged.functions_out.values()), Counter(judged.branches_out.values())
    return {name: (functions[name], branches[name]) for name in decisions.reasons}


def shown_object(
    files: Sequence[File], decisions: Decisions, judged: Judged | None, *, pin: str, scenarios: int
) -> dict[str, Any]:
    """The object that `--json` prints. `partial` is true where only a part of the suite was played."""
    shown: dict[str, Any] = {
        "pin": pin,
        "partial": judged is None,
        "scenarios": scenarios,
        "files": [_file_object(file) for file in files],
    }
    if judged is not None:
        shown["to_do"] = {"functions": judged.functions, "branches": judged.branches}
        shown["stale"] = [{"entry": stale.pattern, "why": stale.why} for stale in judged.stale]
        shown["out_of_scope"] = {
            name: {"because": decisions.reasons[name], "functions": functions, "branches": branches}
            for name, (functions, branches) in reasons(judged, decisions).items()
        }
    return shown


def _file_object(file: File) -> dict[str, Any]:
    return {
        "path": file.path,
        "lines": {"reached": file.lines[0], "of": file.lines[1]},
        "branches": {"reached": file.jumps[0], "of": file.jumps[1]},
        "functions": {function.symbol.partition("::")[2]: function.entered for function in file.functions},
        "missing_lines": file.missing,
    }
