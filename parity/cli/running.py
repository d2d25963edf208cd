"""What `run` and `check` share: play, then print the report or the JSON object."""

from __future__ import annotations

import json
import sys

from rich.console import Console

from parity.ask import Ask
from parity.errors import ExitCode
from parity.report.progress import RunProgress, counted
from parity.report.sight import sight
from parity.report.terminal import next_command, report
from parity.report_json import run_object
from parity.runfile import shown
from parity.session import Run, run
from parity.subjects.ratchet import Ratchet


def play_and_report(ask: Ask, *, as_json: bool, ratchet: Ratchet | None = None) -> int:
    """Run and print; the exit code is the outcome's, and not 0 where the ratchet is red."""
    done = run(ask, RunProgress())
    _print(ask, done, ratchet, as_json=as_json)
    code = done.outcome.exit_code
    return int(ExitCode.FINDINGS if code is ExitCode.OK and ratchet is not None and ratchet.red else code)


def _print(ask: Ask, done: Run, ratchet: Ratchet | None, *, as_json: bool) -> None:
    if as_json:
        whole = run_object(
            done.outcome,
            pin=done.pin,
            partial=done.partial,
            seconds=done.seconds,
            servers=done.servers,
            subject=done.subject,
            against=done.against,
        )
        if ratchet is not None:
            whole["ratchet"] = {"red": list(ratchet.red), "note": ratchet.note}
        json.dump(whole, sys.stdout)
        print()
    else:
        foot = [*([] if ratchet is None else ratchet.lines), *_foot(ask, done)]
        records = str(shown(ask.root, done.records))
        Console(soft_wrap=True, highlight=False).print(report(_head(done), done.outcome, foot, records))


def _head(done: Run) -> str:
    if done.against is not None:
        return f"{_subject(done)} against {done.against.name} (another subject: no record is consulted)"
    assert done.measured is not None, "a run without a reference"
    source = done.measured.source
    if done.measured.commit:
        source += f" at {done.measured.commit[:12]}"
    return (
        f"{_subject(done)} against vLLM {done.measured.version}"
        f" (pin {done.measured.pin}, as measured: {source}; model runner {done.model_runner})"
    )


def _subject(done: Run) -> str:
    """What was held: the subject by name, with what of it is not as usual."""
    subject = done.subject
    told = [f"{name}={value}" for name, value in done.policies.items()]
    if subject.version is not None:
        told.append(subject.version)
    if subject.profile != "exact":
        told.append(f"profile {subject.profile}")
    return ", ".join([subject.name, *told])


def _time(done: Run) -> list[str]:
    """Where the time went: the sides' plays, the starts and ends of their servers, and what is ours."""
    seconds = done.seconds
    reference = "oracle" if done.against is None else done.against.name
    line = f"time: {reference} {seconds.oracle:.2f} s, {done.subject.name} {seconds.subject:.2f} s"
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
    if done.passed_over:
        lines.append(
            f"{counted(done.passed_over, 'record')} of another profile than {done.subject.profile} decided nothing:"
            " `parity record lint` names them"
        )
    lines += sight(done.subject, done.against, done.outcome)
    file = shown(ask.root, done.path)
    lines.append(f"run file: {file}")
    command = next_command(done.outcome, str(file))
    if command and done.against is not None and command.startswith("parity record new"):
        command = None  # records are about one subject and upstream
    if command:
        is_named = ask.subject is not None and command.startswith("parity record")
        lines.append(f"next: {command}{f' --subject {ask.subject}' if is_named else ''}")
    return lines
