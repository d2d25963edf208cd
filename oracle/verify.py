"""Measures what the installed reference is, and holds it against the pin: any doubt is a fault.

A run reports the pin as measured here, never as configured. Quick enough for every run (`measure`: an interpreter's
start and some thirty digests); `inspect(…, whole=True)` also goes through every file that the wheel installed.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.errors import OracleFault
from oracle.interpreter import (
    INSTALL_HINT,
    OVERLAY_MANIFEST,
    has_overlay,
    oracle_environment,
    oracle_python,
    overlay_folder,
)
from oracle.pins import Pin

PROBE_SECONDS = 60.0
REPAIR_HINT = "install the oracle anew: remove {folder} and " + INSTALL_HINT
OVERLAY_HINT = "run `parity oracle install --checkout DIR` again, or without --checkout to use the wheel"

# Asks upstream's own version module, under an empty package of its name: importing the whole takes seconds.
_PROBE = """
import importlib.metadata, importlib.util, json, sys, types
spec = importlib.util.find_spec("vllm")
if spec is None or spec.origin is None:
    print(json.dumps({"missing": True})); raise SystemExit
package = types.ModuleType("vllm")
package.__path__ = list(spec.submodule_search_locations)
sys.modules["vllm"] = package
from vllm.version import __version__
def distribution(name):
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
wheel, torch = distribution(sys.argv[1]), distribution("torch")
print(json.dumps({
    "version": __version__, "origin": spec.origin, "python": "%d.%d.%d" % sys.version_info[:3], "prefix": sys.prefix,
    "torch": torch and torch.version, "wheel_version": wheel and wheel.version,
    "direct_url": wheel and wheel.read_text("direct_url.json"),
    "wheel_info": str(wheel._path) if wheel else None,
}))
"""


@dataclass(frozen=True)
class Mismatch:
    """Something that is not as the pin says; `what` is a file or a property of the installation."""

    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class Measured:
    """What the installed reference is.

    `version` is what upstream itself reports, `source` `wheel` or `checkout`, `commit` the checkout's,
    `wheel_sha256` hex as the installer noted it (None where it did not), `package` the folder of upstream's
    Python files, `files` each examined path with its digest (None: missing).
    """

    pin: str
    version: str
    source: str
    commit: str | None
    wheel_sha256: str | None
    python: str
    torch: str | None
    package: Path
    prefix: Path
    files: dict[str, str | None]
    mismatches: tuple[Mismatch, ...]


@dataclass(frozen=True)
class Probed:
    """What the oracle's interpreter answered."""

    version: str
    package: Path
    python: str
    prefix: Path
    torch: str | None
    wheel_version: str | None
    wheel_sha256: str | None
    wheel_info: Path | None


def measure(root: Path, pin: Pin) -> Measured:
    """What every run calls first. Raises OracleFault, in one line, unless all is as the pin says."""
    measured = inspect(root, pin)
    require(measured)
    return measured


def require(measured: Measured) -> None:
    """Raise OracleFault naming the first mismatch, if there is any."""
    if measured.mismatches:
        more = len(measured.mismatches) - 1
        rest = f" (and {more} more: parity oracle verify)" if more else ""
        raise OracleFault(
            f"the oracle is not the pin {measured.pin}: {measured.mismatches[0]}{rest}", repair(measured)
        )


def repair(measured: Measured) -> str:
    """What to do about a reference that is not the pin."""
    return OVERLAY_HINT if measured.source == "checkout" else REPAIR_HINT.format(folder=measured.prefix)


def inspect(root: Path, pin: Pin, relied_on: Iterable[str] = (), *, whole: bool = False) -> Measured:
    """Measure the reference; mismatches are returned, not raised.

    `relied_on` are upstream files that must be among those that the pin digests (records cite them). Raises OracleFault when
    nothing can be measured: no interpreter, no upstream in it, no answer.
    """
    overlay = overlay_folder(root, pin) if has_overlay(root, pin) else None
    probed = probe(oracle_python(root, pin), oracle_environment(root, pin), root, pin)
    return compare(pin, probed, overlay, relied_on, whole=whole)


def probe(python: Path, env: Mapping[str, str], root: Path, pin: Pin) -> Probed:
    """Ask the interpreter which upstream it would import, without importing it. Raises OracleFault."""
    try:
        done = subprocess.run(
            [str(python), "-c", _PROBE, pin.package],
            env=dict(env),
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise OracleFault(f"{python} did not answer in {PROBE_SECONDS:.0f} s", "try again") from error
    except OSError as error:
        raise OracleFault(f"{python} cannot be started ({error.strerror})", INSTALL_HINT) from error
    try:
        answer = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        answer = None
    if done.returncode != 0 or not isinstance(answer, dict):
        last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise OracleFault(f"{python} cannot say what upstream it has: {last}", INSTALL_HINT)
    if answer.get("missing"):
        raise OracleFault(f"{python} has no upstream (no package vllm)", INSTALL_HINT)
    return _probed(answer)


def _probed(answer: dict[str, Any]) -> Probed:
    info = answer["wheel_info"]
    return Probed(
        version=answer["version"],
        package=Path(answer["origin"]).parent,
        python=answer["python"],
        prefix=Path(answer["prefix"]),
        torch=answer["torch"],
        wheel_version=answer["wheel_version"],
        wheel_sha256=_archive_sha256(answer["direct_url"]),
        wheel_info=None if info is None else Path(info),
    )


def _archive_sha256(direct_url: str | None) -> str | None:
    """The sum that pip noted of the archive it installed from, if it did."""
    if direct_url is None:
        return None
    try:
        archive = json.loads(direct_url).get("archive_info", {})
        named = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
    except (ValueError, AttributeError):
        return "an unreadable direct_url.json"
    return named or None


def compare(
    pin: Pin, probed: Probed, overlay: Path | None, relied_on: Iterable[str] = (), *, whole: bool = False
) -> Measured:
    """Hold what was probed, and the files on disk, against the pin."""
    base = probed.package.parent
    files = {path: digest(base / path) for path in pin.files}
    manifest = _manifest(overlay) if overlay is not None else None
    mismatches = list(_facts(pin, probed))
    mismatches += [
        Mismatch(path, expected, files[path] or "no such file")
        for path, expected in pin.files.items()
        if files[path] != expected
    ]
    mismatches += [
        Mismatch(path, "a digest in the pin's [files], as a record relies on it", "relied on but not pinned")
        for path in sorted(set(relied_on) - set(pin.files))
    ]
    if overlay is not None and manifest is not None:
        mismatches += _overlay(pin, probed, overlay, manifest, whole=whole)
    if whole and probed.wheel_info is not None:
        mismatches += _record(probed.wheel_info, skip=set(pin.files) if overlay is None else set())
    commit = manifest.get("commit") if manifest is not None else None
    return Measured(
        pin=pin.name,
        version=probed.version,
        source="wheel" if overlay is None else "checkout",
        commit=commit,
        wheel_sha256=probed.wheel_sha256,
        python=probed.python,
        torch=probed.torch,
        package=probed.package,
        prefix=probed.prefix,
        files=files,
        mismatches=tuple(mismatches),
    )


def digest(path: Path) -> str | None:
    """`sha256:…` of a file, None when it cannot be read."""
    try:
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _facts(pin: Pin, probed: Probed) -> Iterator[Mismatch]:
    if probed.version != pin.reports:
        yield Mismatch("the version that upstream reports", pin.reports, probed.version)
    if probed.wheel_version != pin.version:
        yield Mismatch(f"the installed {pin.package}", pin.version, probed.wheel_version or "none")
    if probed.wheel_sha256 not in (None, pin.wheel.sha256):
        yield Mismatch("the wheel's sha256", pin.wheel.sha256, str(probed.wheel_sha256))


def _manifest(overlay: Path) -> dict[str, Any]:
    """What the overlay says of itself; {} when it is unreadable, which no check lets pass."""
    try:
        manifest = json.loads((overlay / OVERLAY_MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _overlay(
    pin: Pin, probed: Probed, overlay: Path, manifest: dict[str, Any], *, whole: bool
) -> Iterator[Mismatch]:
    commit = str(manifest.get("commit", "none"))
    if not pin.is_commit(commit):
        yield Mismatch("the checkout's commit", f"{pin.commit}…", commit)
    if probed.package != overlay / "vllm":
        yield Mismatch(
            "the folder that upstream is imported from", str(overlay / "vllm"), str(probed.package)
        )
    for name in manifest.get("compiled", []):
        if not (overlay / "vllm" / name).is_file():
            yield Mismatch(f"vllm/{name}", "the wheel's compiled part", "a broken link")
    if not whole:
        return
    files: dict[str, str] = manifest.get("files", {})
    for path, expected in files.items():
        found = digest(overlay / path)
        if found != expected and path not in pin.files:
            yield Mismatch(path, expected, found or "no such file")
    for source in sorted((overlay / "vllm").rglob("*.py")):
        path = source.relative_to(overlay).as_posix()
        if path not in files:
            yield Mismatch(path, "no such file in the checkout", "a file")


def _record(info: Path, skip: set[str]) -> Iterator[Mismatch]:
    """Each file that the wheel installed, held against the digest that the installer noted for it."""
    try:
        rows = list(csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines()))
    except OSError:
        yield Mismatch(f"{info.name}/RECORD", "the wheel's list of files", "no such file")
        return
    for path, noted, *_ in rows:
        if not noted or path in skip or path.endswith(".pyc"):
            continue
        expected = "sha256:" + _hex(noted.removeprefix("sha256="))
        found = digest(info.parent / path)
        if found != expected:
            yield Mismatch(path, expected, found or "no such file")


def _hex(unpadded: str) -> str:
    return base64.urlsafe_b64decode(unpadded + "=" * (-len(unpadded) % 4)).hex()
