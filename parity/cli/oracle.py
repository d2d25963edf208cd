"""`parity oracle install|verify`: put the reference in place, and measure that it is the pin."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.cli.options import Commands, add_json, add_pin, some_path, verb
from parity.errors import ExitCode, OracleError, RecordError, UsageError
from parity.root import project_root

if TYPE_CHECKING:
    from oracle.pins import Pin
    from oracle.verify import Measured


def register(commands: Commands) -> None:
    parser = verb(
        commands, "oracle", "Install the pinned reference, or measure it.", "parity oracle verify", execute
    )
    verbs = parser.add_subparsers(dest="oracle_verb", metavar="VERB", required=True, title="verbs")
    install = verb(
        verbs,
        "install",
        "Install the pinned reference into an environment of its own, unless it is there.",
        "parity oracle install --checkout ../vllm",
        execute,
    )
    add_pin(install)
    install.add_argument(
        "--wheel",
        type=some_path,
        metavar="FILE",
        help="install this file; its sum must be the pin's all the same",
    )
    install.add_argument(
        "--checkout",
        type=some_path,
        metavar="DIR",
        help="take upstream's Python files from this clean git checkout of the pin's commit, until "
        "`parity oracle install` without --checkout",
    )
    verify = verb(
        verbs,
        "verify",
        "Measure version, wheel and files of the installed reference; anything that is not the pin's is an error.",
        "parity oracle verify --json",
        execute,
    )
    add_pin(verify)
    add_json(verify)


def execute(args: argparse.Namespace) -> int:
    from parity.oracle_side import find_pin

    root = project_root()
    pin = find_pin(root, args.pin)
    if args.oracle_verb == "install":
        return _install(root, pin, args.wheel, args.checkout)
    return _verify(root, pin, as_json=args.json)


def _install(root: Path, pin: Pin, wheel: Path | None, checkout: Path | None) -> int:
    from oracle.checkout import lay_checkout, lift_overlay
    from oracle.install import ensure_oracle
    from oracle.steps import Progress
    from oracle.verify import measure
    from parity.oracle_side import oracle_faults

    if wheel is not None and not wheel.is_file():
        raise UsageError(f"--wheel: no file {wheel}", hint=f"name a copy of {pin.wheel.file}")
    if checkout is not None and not checkout.is_dir():
        raise UsageError(f"--checkout: no folder {checkout}", hint="name a git checkout of upstream")
    progress = Progress("oracle")
    with oracle_faults():
        ensure_oracle(root, pin, progress, wheel)
        if checkout is not None:
            commit = lay_checkout(root, pin, checkout)
            progress.say(f"upstream's Python files are those of {checkout} at {commit}")
        elif lift_overlay(root, pin):
            progress.say("removed the overlay of a checkout: runs use the wheel's Python files again")
        print(_summary(measure(root, pin)))
    return int(ExitCode.OK)


def _verify(root: Path, pin: Pin, *, as_json: bool) -> int:
    from oracle.errors import OracleFault
    from oracle.verify import inspect, repair

    relied_on = relied_on_files(root)
    try:
        measured = inspect(root, pin, relied_on, whole=True)
    except OracleFault as fault:
        if as_json:
            print(json.dumps(_as_json(pin, None, [str(fault)]), indent=2))
        raise OracleError(fault.message, hint=fault.hint) from fault
    faults = [str(mismatch) for mismatch in measured.mismatches]
    if as_json:
        print(json.dumps(_as_json(pin, measured, faults), indent=2))
    else:
        for fault_line in faults:
            print(fault_line)
    if faults:
        raise OracleError(
            f"the oracle is not the pin {pin.name}: {len(faults)} mismatch{'es' if len(faults) > 1 else ''}",
            hint=repair(measured),
        )
    if not as_json:
        print(_summary(measured))
    return int(ExitCode.OK)


def _summary(measured: Measured) -> str:
    where = "wheel" if measured.source == "wheel" else f"checkout at {measured.commit}"
    return (
        f"{measured.pin}: upstream reports {measured.version} ({where}), "
        f"{len(measured.files)} relied-on files as pinned, Python {measured.python}, torch {measured.torch}"
    )


def _as_json(pin: Pin, measured: Measured | None, faults: list[str]) -> dict[str, Any]:
    """The object that `verify --json` prints; `ok` is the answer, `faults` the lines."""
    files = {} if measured is None else measured.files
    return {
        "ok": not faults,
        "pin": {
            "name": pin.name,
            "version": pin.version,
            "measured": None if measured is None else measured.version,
        },
        "source": None if measured is None else measured.source,
        "commit": None if measured is None else measured.commit,
        "wheel_sha256": None if measured is None else measured.wheel_sha256,
        "python": None if measured is None else measured.python,
        "torch": None if measured is None else measured.torch,
        "files": [
            {"path": path, "expected": expected, "found": files.get(path)}
            for path, expected in pin.files.items()
        ],
        "faults": faults,
    }


def relied_on_files(root: Path) -> list[str]:
    """The upstream files that records cite in their anchors, sorted; records out of force no longer rely on any.

    Raises RecordError for a record whose front matter cannot be read.
    """
    paths: set[str] = set()
    for path in sorted((root / "records").rglob("*.md")):
        front = _front_matter(path, root)
        if front.get("state") in ("retired", "withdrawn"):
            continue
        anchors = front.get("anchors") or []
        if not isinstance(anchors, list):
            raise RecordError(path.relative_to(root), "anchors: must be a list")
        for anchor in anchors:
            at = anchor.get("at") if isinstance(anchor, dict) else None
            if not isinstance(at, str):
                raise RecordError(path.relative_to(root), "anchors: each needs `at: path.py::Symbol`")
            file = at.partition("::")[0]
            if file.startswith("vllm/"):
                paths.add(file)
    return sorted(paths)


def _front_matter(path: Path, root: Path) -> dict[str, Any]:
    """A record's front matter; {} for a page without one, such as a folder's README."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        opening, _, rest = text.partition("\n")
        front = yaml.safe_load(rest.split("\n---", 1)[0]) if opening.strip() == "---" else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).partition("\n")[0]
        raise RecordError(path.relative_to(root), reason, hint="run `parity record lint`") from error
    return front if isinstance(front, dict) else {}
