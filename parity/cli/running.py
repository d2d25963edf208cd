"""What `run` and `check` share: play, then print the report or the JSON object."""

from __future__ import annotations

import json
import sys

from rich.console import Console

from parity.ask import Ask
from parity.report.progress import RunProgress, counted
from parity.report.terminal import next_command, report
from parity.report_json import run_object
from parity.runfile import shown
from parity.session import Run, run


def play_and_report(ask: Ask, *, as_json: bool) -> int:
    """Run and print; the exit code is the outcome's."""
    done = run(ask, RunProgress())
    _print(ask, done, as_json=as_json)
    return int(done.outcome.exit_code)


def _print(ask: Ask, done: Run, *, as_json: bool) -> None:
    if as_json:
        shown = run_object(
            done.outcome,
            pin=done.pin,
            partial=done.partial,
            seconds=done.seconds,
            servers=done.servers,
            server=done.server,
        )
        json.dump(shown, sys.stdout)
        print()
    else:
        Console(soft_wrap=True, highlight=False).print(report(_head(done), done.outcome, _foot(ask, done)))


def _head(done: Run) -> str:
    source = done.measured.source
    if done.measured.commit:
        source += f" at {done.measured.commit[:12]}"
    return (
        f"{_subject(done)} against vLLM {done.measured.version}"
        f" (pin {done.measured.pin}, as measured: {source}; model runner {done.model_runner})"
    )


def _subject(done: Run) -> str:
    """What was held against upstream: the engine, and at level serve whoever was named with --server."""
    policies = "".join(f", {name}={value}" for name, value in done.policies.items())
    if done.server is None:
        return f"engine{policies}"
    server = f"server {done.server.name} (launcher {done.server.digest[:19]})"
    if {result.level for result in done.outcome.scenarios} == {"serve"}:
        return f"{server}{policies}"
    return f"engine and, at level serve, {server}{policies}"


def _time(done: Run) -> list[str]:
    """Where the time went: the sides' plays, the starts and ends of their servers, and what is ours."""
    seconds = done.seconds
    line = f"time: oracle {seconds.oracle:.2f} s, {'engine' if done.server is None else 'subject'} {seconds.subject:.2f} s"
    served = [(name, times) for name, times in done.servers.items() if times.starts]
    if served:
        line += f", both at once; {done.wall_seconds:.2f} s with the starts and ends of servers"
        line += f", {seconds.harness:.2f} s of it judging and writing"
    else:
        line += f", both at once and judged in {done.wall_seconds:.2f} s"
    if done.start_seconds:
        line += f", after {done.start_seconds:.1f} s of start-up"
    return [
        line,
        *(
            f"servers of the {name}: {counted(times.starts, 'start')} in {times.start_seconds:.1f} s,"
            f" scripts in {times.play_seconds:.1f} s, ends in {times.end_seconds:.1f} s"
            for name, times in served
        ),
    ]


def _foot(ask: Ask, done: Run) -> list[str]:
    lines = _time(done)
    if done.logs is not None:
        lines.append(f"server logs: {shown(ask.root, done.logs)}")
    if ask.depth == "quick":
        lines.append("quick run: levels plan and schedule only; `make parity` plays all three")
    if ask.chosen:
        lines.append(
            "partial run: only the chosen scenarios, and only the records that name or cover them, were judged"
        )
    file = shown(ask.root, done.path)
    lines.append(f"run file: {file}")
    command = next_command(done.outcome, str(file))
    if command and done.server is not None and command.startswith("parity record new"):
        command = None  # records are about the engine
    if command:
        lines.append(f"next: {command}")
    return lines
