"""What `parity smoke` prints: a line for everything that was looked at, then whose the rest is, and what to do next."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec

from parity.report.progress import counted
from parity.subjects.smoke import Line
from parity.subjects.smoke_playing import Smoke

WORDS = {
    "ok": "ok",
    "differs": "differs",
    "broken": "BROKEN",
    "flaky": "FLAKY",
    "unmet": "NOT MET",
    "unexercised": "not exercised",
}
MAX_SHOWN = 8  # scenarios that went wrong in one way


def smoke_lines(done: Smoke, name: str) -> list[str]:
    """The report of a subject that the command line called `name`."""
    who = f"{done.subject} {done.version}" if done.version else done.subject
    lines = [f"smoke of {who} against the golden lines of {done.header.pin}, made {done.header.made}"]
    if done.played:
        lines.append(f"played: {done.played} of {done.golden} golden scenarios")
    for what in ("door", "capability", "field"):
        lines += [_told(line) for line in done.lines if line.what == what]
    wrong = [line for line in done.lines if line.what == "scenario" and line.state != "ok"]
    for state, group in groupby(sorted(wrong, key=lambda line: line.state), key=lambda line: line.state):
        found = list(group)
        lines += [_told(line) for line in found[:MAX_SHOWN]]
        if len(found) > MAX_SHOWN:
            lines.append(f"  … and {counted(len(found) - MAX_SHOWN, 'scenario')} more {WORDS[state]}")
    return [*lines, _sentence(done), f"next: {_next(done, name)}"]


def smoke_object(done: Smoke) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "subject": done.subject,
        "version": done.version,
        "golden": msgspec.to_builtins(done.header),
        "played": done.played,
        "lines": [{**msgspec.to_builtins(line), "whose": _whose(line)} for line in done.lines],
        "is_sound": done.is_conclusive and not done.faults,
        "faults": len(done.faults),
        "differences": len(done.differences),
        "exit_code": int(done.exit_code),
    }


def _told(line: Line) -> str:
    return f"  {line.what} {line.name}: {WORDS[line.state]}" + (f" — {line.detail}" if line.detail else "")


def _whose(line: Line) -> str | None:
    return "adapter" if line.is_adapters_fault else "engine" if line.state == "differs" else None


def _sentence(done: Smoke) -> str:
    if not done.is_conclusive:
        return "nothing could be concluded: no answer that can be trusted"
    faults, differences = len(done.faults), len(done.differences)
    adapter = (
        f"the adapter is at fault in {counted(faults, 'line')} above" if faults else "the adapter is sound"
    )
    if not done.played:
        return adapter
    if not differences:
        return f"{adapter}; the engine is as upstream wherever it answered"
    return f"{adapter}; the engine differs from upstream in {counted(differences, 'scenario')}"


def _next(done: Smoke, name: str) -> str:
    if not done.is_conclusive or done.faults:
        first = done.faults[0] if done.faults else None
        if first is not None and first.state == "unmet":
            return f"do what is claimed, or take {first.name} out of the subject's file; then parity smoke {name}"
        return f"mend the adapter (docs/protocol.md has its lines), then parity smoke {name}"
    return f"parity run --subject {name}"
