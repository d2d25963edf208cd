"""Where the reference is and how a process of it is started.

Whoever starts upstream, for a run or for a measurement, takes interpreter and environment variables from here, so that
every process sees the same upstream and is deterministic in the same way.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from oracle.environment import digest_of, key_of, read_stamp, shared_folder
from oracle.errors import OracleFault
from oracle.pins import DEFAULT_PIN, Pin

INSTALL_HINT = "run `make setup` (or `parity oracle install`)"
OVERLAY_MANIFEST = "overlay.json"

# What makes upstream's behaviour a function of its input, and keeps it off the network.
DETERMINISM = {
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "PYTHONHASHSEED": "0",
    "VLLM_HOST_IP": "127.0.0.1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH")


def set_model_runner() -> str:
    """The model runner that the environment chooses for every process of upstream, as a driver's hello names it."""
    return "v2" if DETERMINISM["VLLM_USE_V2_MODEL_RUNNER"] == "1" else "v1"


def oracle_holds(pin: Pin) -> dict[str, str]:
    """What the stamp of a finished oracle environment says: the digests of the lock and of the wheel."""
    return {"lock": digest_of(pin.lock), "wheel": pin.wheel.sha256}


def oracle_folder(root: Path, pin: Pin) -> Path:
    """The oracle's virtual environment, whether it exists or not; shared when NULLBLOCK_ENVS is set."""
    shared = shared_folder()
    if shared is not None:
        return shared / f"oracle-{key_of(oracle_holds(pin))}"
    return root / "oracle" / (".venv" if pin.name == DEFAULT_PIN else f".venv-{pin.name}")


def given_python() -> Path | None:
    """The interpreter that NULLBLOCK_ORACLE_PYTHON names: one that has upstream already, if any."""
    named = os.environ.get("NULLBLOCK_ORACLE_PYTHON", "")
    return Path(named).expanduser().absolute() if named else None


def oracle_python(root: Path, pin: Pin) -> Path:
    """The interpreter that has upstream. Raises OracleFault when it is not installed, or from another lock."""
    given = given_python()
    if given is not None:
        if not given.is_file():
            raise OracleFault(f"NULLBLOCK_ORACLE_PYTHON: no interpreter {given}", "correct or unset it")
        return given
    folder = oracle_folder(root, pin)
    held = read_stamp(folder)
    if not held:
        raise OracleFault(f"the oracle {pin.name} is not installed ({folder})", INSTALL_HINT)
    if held != oracle_holds(pin):
        raise OracleFault(f"the oracle in {folder} was installed from another lock or wheel", INSTALL_HINT)
    return folder / "bin" / "python"


def overlay_folder(root: Path, pin: Pin) -> Path:
    """Where a checkout's Python files are laid over the wheel's; always in the clone, never shared."""
    return root / "oracle" / ".overlay" / pin.name


def has_overlay(root: Path, pin: Pin) -> bool:
    """Whether runs take upstream's Python from a checkout."""
    return (overlay_folder(root, pin) / OVERLAY_MANIFEST).is_file()


def oracle_environment(root: Path, pin: Pin, *, overlay: Path | None = None) -> dict[str, str]:
    """All environment variables for a process of the oracle; nothing else of the caller's leaks in.

    `overlay` lays another folder over the wheel than the clone's own overlay (a build that is tried before it is used).
    Run the process with the project's root as its working directory.
    """
    laid = overlay if overlay is not None else overlay_folder(root, pin) if has_overlay(root, pin) else None
    return start_environment(cache_folder(root, pin), laid)


def start_environment(cache: Path, overlay: Path | None) -> dict[str, str]:
    """The variables for a given cache folder and a given overlay, or none."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    own = {
        "LC_ALL": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        "VLLM_CACHE_ROOT": str(cache / "vllm"),
        "VLLM_CONFIG_ROOT": str(cache / "config"),
        "HF_HOME": str(cache / "huggingface"),
        "NULLBLOCK_ORACLE_SOURCE": "wheel" if overlay is None else "checkout",
    }
    path = {} if overlay is None else {"PYTHONPATH": str(overlay)}
    return passed | own | path | DETERMINISM


def cache_folder(root: Path, pin: Pin) -> Path:
    """Where upstream keeps what it found out about models: inside the environment, if that is ours to write."""
    folder = oracle_folder(root, pin)
    if given_python() is None and os.access(folder, os.W_OK):
        return folder / "cache"
    given = hashlib.sha256(str(given_python() or folder).encode()).hexdigest()[:12]
    return root / "oracle" / ".cache" / f"upstream-{given}"
