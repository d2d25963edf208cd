"""The checkout that a command works on: found by walking up to `oracle/pins/`, and its own code's, or refused."""

from __future__ import annotations

from pathlib import Path

from parity.errors import UsageError

CODE_ROOT = Path(__file__).resolve().parent.parent


def project_root(start: Path | None = None) -> Path:
    """The project's root above `start` (default: the working directory).

    Raises UsageError when there is none, or when the code that runs is not that checkout's.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "oracle" / "pins").is_dir():
            if folder != CODE_ROOT:
                raise UsageError(
                    f"this command's code is not that of the checkout {folder}",
                    hint=f"run {folder}/.venv/bin/parity (made by `make setup` there)",
                )
            return folder
    raise UsageError(
        f"no Nullblock checkout at or above {here}", hint="change into a clone (it has a folder oracle/pins/)"
    )
