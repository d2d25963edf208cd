"""What `run` and `check` share: play, then print the report or the JSON object."""

from __future__ import annotations

import json
import sys

from rich.console import Console

from parity.cli.output import until_the_reader_leaves
from parity.report.progress import RunProgress
from parity.report.terminal import next_command, report
from parity.report_json import run_object
from parity.session import Ask, Run, run


def play_and_report(ask: Ask, *, as_json: bool) -> int:
    """Run and print; the exit code is the outcome's."""
    done = run(ask, RunProgress())
    with until_the_reader_leaves():
        _print(ask, done, as_json=as_json)
    return int(done.outcome.exit_code)


def _print(ask: Ask, done: Run, *, as_json: bool) -> None:
    if as_json:
        shown = run_object(done.outcome, pin=done.pin, partial=done.partial, seconds=done.seconds)
        json.dump(shown, sys.stdout)
        print()
    else:
        Console(soft_wrap=True, highlight=False).print(report(_head(done), done.outcome, _foot(ask, done)))


def _head(done: Run) -> str:
    source = done.measured.source
    if done.measured.commit:
        source += f" at {done.measured.commit[:12]}"
    policies = "".join(f", {name}={value}" for name, value in done.policies.items())
    runner = done.hello.get("model_runner", "?")
    return (
        f"engine{policies} against vLLM {done.measured.version}"
        f" (pin {done.measured.pin}, as measured: {source}; model runner {runner})"
    )


def _foot(ask: Ask, done: Run) -> list[str]:
    seconds = done.seconds
    lines = [
        f"time: oracle {seconds.oracle:.2f} s, engine {seconds.subject:.2f} s, both at once and judged in"
        f" {done.wall_seconds:.2f} s, after {done.start_seconds:.1f} s of start-up"
    ]
    if done.partial:
        lines.append(
            "partial run: only the chosen scenarios, and only the records that name or cover them, were judged"
        )
    run_file = done.path
    shown = run_file.relative_to(ask.root) if run_file.is_relative_to(ask.root) else run_file
    lines.append(f"run file: {shown}")
    command = next_command(done.outcome, str(shown))
    if command:
        lines.append(f"next: {command}")
    return lines
