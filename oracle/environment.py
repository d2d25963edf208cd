"""Makes and fills the virtual environments, before any environment exists: `python3 -m oracle.environment main --lock test`.

Two of them: the main one (`.venv`, from `requirements/`) and the oracle's own. Either each clone has its own, or
with NULLBLOCK_ENVS=DIR several clones share them: then a folder of DIR is keyed by the digest of what it holds, is
filled under a file lock, and holds dependencies only, while `.venv/` of the clone is a plain folder of scripts that
start the shared interpreter on the clone's own code. In neither mode is the project itself installed.

A stamp, written last, says what an environment holds. So an interrupted filling is recognised and done anew, and a
second call has nothing to do. The standard library is all that may be imported here.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (an old interpreter must get as far as this line)
    raise SystemExit(
        f"setup: {sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}, and Nullblock needs "
        "3.11 or newer — run: make PYTHON=python3.11 setup"
    )

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from oracle.errors import OracleFault
from oracle.steps import LOG_SECONDS, Progress, way_out

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("base", "test", "model")  # files of requirements/; each holds all of base
STAMP = "nullblock.json"
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
PIP_INSTALL = (*PIP, "install", "--no-deps", "--progress-bar", "off", "--no-warn-script-location")

_FIND_ROOT = 'root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")\n'
# The caller's PYTHONPATH is dropped: a foreign module of a dependency's name would come before the locked one.
_OWN_CODE = 'export PYTHONPATH="$root"\n'
# -P keeps the working directory, which may be another clone, out of the way of this clone's code.
COMMANDS = {
    name: "#!/bin/sh\n# The command of this clone: its own code, in its environment.\n"
    f'{_FIND_ROOT}{_OWN_CODE}exec "$root/.venv/bin/python" -P -m {module} "$@"\n'
    for name, module in (("parity", "parity"), ("nullblock", "engine.cli.main"))
}


def shared_folder() -> Path | None:
    """The folder of the shared environments, if NULLBLOCK_ENVS names one."""
    named = os.environ.get("NULLBLOCK_ENVS", "")
    return Path(named).expanduser().absolute() if named else None


def digest_of(path: Path) -> str:
    """Hex sha256 of a file. Raises OracleFault when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise OracleFault(
            f"{path} cannot be read ({error.strerror})", "restore it (git checkout) or name another"
        ) from error


def read_stamp(folder: Path) -> dict[str, str]:
    """What an environment says it holds: name to hex digest. Empty when it was never filled to the end."""
    if not (folder / "bin" / "python").exists():
        return {}
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    held = stamp.get("holds") if isinstance(stamp, dict) else None
    return {str(name): str(digest) for name, digest in held.items()} if isinstance(held, dict) else {}


def write_stamp(folder: Path, holds: Mapping[str, str]) -> None:
    """Say what an environment holds; the last act of filling it."""
    _write(folder / STAMP, json.dumps({"holds": dict(holds)}, indent=1) + "\n", 0o644)


def child_environment() -> dict[str, str]:
    """Environment variables for venv and pip: the user's own, without what would lead them to another Python."""
    away = {"PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "VIRTUAL_ENV"}
    return {
        key: value
        for key, value in os.environ.items()
        if key not in away and not key.startswith("PYTHON") and key != "__PYVENV_LAUNCHER__"
    } | {"PYTHONNOUSERSITE": "1"}


@contextlib.contextmanager
def locked(path: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock file `path`: of two that set up the same environment at once, one waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        told = 0.0
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() - told > LOG_SECONDS:
                    progress.say(f"waiting for another set-up that holds {path}")
                    told = time.monotonic()
                time.sleep(0.2)
        yield


def discard(path: Path) -> None:
    """Remove a file, a link or a folder, if it is there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def make_venv(folder: Path, progress: Progress) -> Path:
    """A fresh virtual environment in place of `folder`; its interpreter."""
    discard(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    progress.run(
        f"making a virtual environment in {folder}",
        [sys.executable, "-m", "venv", folder],
        child_environment(),
    )
    return folder / "bin" / "python"


def key_of(digests: Mapping[str, str]) -> str:
    """Twelve hex digits that name a shared environment: the lock's digest, or that of several digests."""
    ordered = [digests[name] for name in sorted(digests)]
    return (ordered[0] if len(ordered) == 1 else hashlib.sha256("".join(ordered).encode()).hexdigest())[:12]


def ensure_main(root: Path, wanted: Sequence[str], progress: Progress) -> Path:
    """Make `.venv` hold the locks `wanted`, and those that it held before; the folder of the environment.

    Installs nothing when it does already. Raises OracleFault with the failed step and the way out.
    """
    clone = root / ".venv"
    held = read_stamp(clone)
    names = [name for name in LOCKS if name == "base" or name in wanted or name in held]
    holds = {name: digest_of(root / "requirements" / f"{name}.lock") for name in names}
    shared = shared_folder()
    own_lock = root / "oracle" / ".cache" / "main.lock"
    if shared is None:
        if (clone / "pyvenv.cfg").exists() and held == holds and _scripts_fit(root, None):
            return clone
        with locked(own_lock, progress):
            _fill_main(root, clone, holds, progress)
            _own_scripts(root)
        return clone
    # Every lock holds all of base, so base counts for the key only when it is alone.
    folder = shared / f"main-{key_of({n: d for n, d in holds.items() if n != 'base'} or holds)}"
    if read_stamp(folder) != holds:
        with locked(folder.with_name(folder.name + ".lock"), progress):
            _fill_main(root, folder, holds, progress)
    if held == holds and _scripts_fit(root, folder):
        return folder
    with locked(own_lock, progress):
        _shared_scripts(root, folder, holds)
    return folder


def _fill_main(root: Path, folder: Path, holds: Mapping[str, str], progress: Progress) -> None:
    """Install what `folder` lacks; anew if it holds anything else, or was not filled to the end."""
    held = read_stamp(folder) if (folder / "pyvenv.cfg").exists() else {}
    if held == holds:
        return
    if held and all(holds.get(name) == digest for name, digest in held.items()):
        (folder / STAMP).unlink()
        python = folder / "bin" / "python"
    else:
        held = {}
        python = make_venv(folder, progress)
    missing = [name for name in holds if name not in held]
    files = [word for name in missing for word in ("-r", root / "requirements" / f"{name}.lock")]
    progress.run(
        f"installing {', '.join(f'requirements/{name}.lock' for name in missing)}",
        [python, *PIP_INSTALL, *files],
        child_environment(),
    )
    progress.run("checking that the packages fit together", [python, *PIP, "check"], child_environment())
    write_stamp(folder, holds)
    progress.say(f"{folder} is ready")


def _own_scripts(root: Path) -> None:
    """The commands of a clone with an environment of its own; its interpreter sees the clone's code everywhere."""
    clone = root / ".venv"
    for site in clone.glob("lib/python*/site-packages"):
        _write(site / "nullblock-clone.pth", f"{root}\n", 0o644)
    for name, script in COMMANDS.items():
        _write(clone / "bin" / name, script, 0o755)


def _shared_scripts(root: Path, folder: Path, holds: Mapping[str, str]) -> None:
    """In place of an environment: scripts that start the shared interpreter on the clone's code."""
    clone = root / ".venv"
    if clone.is_symlink() or (clone / "pyvenv.cfg").exists():
        discard(clone)
    (clone / "bin").mkdir(parents=True, exist_ok=True)
    _write(clone / "bin" / "python", _python_script(folder), 0o755)
    for name, script in COMMANDS.items():
        _write(clone / "bin" / name, script, 0o755)
    write_stamp(clone, holds)


def _python_script(folder: Path) -> str:
    """The interpreter's stand-in. It remembers where the shared environments are, for the oracle's sake."""
    return (
        "#!/bin/sh\n# The shared interpreter, with this clone's code.\n"
        f"{_FIND_ROOT}{_OWN_CODE}"
        f'[ -n "$NULLBLOCK_ENVS" ] || NULLBLOCK_ENVS={shlex.quote(str(folder.parent))}\nexport NULLBLOCK_ENVS\n'
        f'exec {shlex.quote(str(folder / "bin" / "python"))} "$@"\n'
    )


def _scripts_fit(root: Path, folder: Path | None) -> bool:
    """Whether `.venv/bin` holds the scripts of this mode, made for where the clone is now."""
    clone = root / ".venv"
    expected = {clone / "bin" / name: script for name, script in COMMANDS.items()}
    if folder is None:
        expected |= {
            site / "nullblock-clone.pth": f"{root}\n" for site in clone.glob("lib/python*/site-packages")
        }
    else:
        expected[clone / "bin" / "python"] = _python_script(folder)
    return all(_read(path) == text for path, text in expected.items())


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _write(path: Path, text: str, mode: int) -> None:
    """Replace a file whole, so that nobody ever reads half of it."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.chmod(mode)
    aside.replace(path)


def show_failure(error: OracleFault | OSError) -> None:
    """A failed set-up on stderr: what, the evidence, the way out."""
    if isinstance(error, OracleFault):
        fault = error
    else:
        fault = OracleFault(f"{error.filename or 'a file'}: {error.strerror}", way_out(str(error)))
    print(f"\nsetup: {fault.message}", file=sys.stderr)
    for part in (fault.detail, f"  way out: {fault.hint}" if fault.hint else ""):
        if part:
            print(part, file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when the environment is ready, 1 when it is not."""
    parser = argparse.ArgumentParser(
        prog="python3 -m oracle.environment",
        description="Make and fill an environment of this clone.",
    )
    parser.add_argument("which", choices=["main"], help="the clone's own environment, .venv")
    parser.add_argument(
        "--lock", choices=LOCKS, action="append", required=True, help="a file of requirements/"
    )
    args = parser.parse_args(argv)
    try:
        ensure_main(ROOT, args.lock, Progress("setup"))
    except (OracleFault, OSError) as error:
        show_failure(error)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; the same command takes it up again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
