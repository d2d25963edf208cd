"""Lays a git checkout of upstream over the wheel: `parity oracle install --checkout DIR`.

Who wants to hold an engine against upstream's own tree, not a packager's build of it, has a checkout. Its Python files are
taken from the commit itself (never from the working tree, which must be clean all the same); what a bare tree lacks is
added: the version module that upstream's build generates, a stub of the distribution `vllm` that platform detection asks for
its version, and the wheel's compiled parts as links.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from oracle.environment import discard
from oracle.errors import OracleFault
from oracle.interpreter import (
    OVERLAY_MANIFEST,
    cache_folder,
    oracle_environment,
    oracle_python,
    overlay_folder,
    start_environment,
)
from oracle.pins import Pin
from oracle.verify import compare, probe, require

GIT_SECONDS = 120.0
_REGULAR = ("100644", "100755")
# Set while git runs a hook, these would lead every call to that hook's repository.
_OTHER_REPOSITORY = frozenset(
    f"GIT_{name}"
    for name in ("DIR", "WORK_TREE", "COMMON_DIR", "INDEX_FILE", "OBJECT_DIRECTORY", "NAMESPACE")
)


def lay_checkout(root: Path, pin: Pin, checkout: Path) -> str:
    """Build the overlay from the checkout and put it in place at once; the commit that it holds.

    Raises OracleFault for anything but a clean checkout of the pin's commit; the overlay that was there then stays.
    """
    commit = examine(checkout, pin)
    bare = start_environment(cache_folder(root, pin), None)
    wheel = probe(oracle_python(root, pin), bare, root, pin).package
    place = overlay_folder(root, pin)
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{pin.name}.new-", dir=place.parent))
    try:
        _fill(aside, checkout, commit, pin, wheel)
        _prove(root, pin, aside)
        _swap(aside, place)
    finally:
        discard(aside)
    return commit


def lift_overlay(root: Path, pin: Pin) -> bool:
    """Remove the overlay, so that runs use the wheel's Python again; whether there was one."""
    place = overlay_folder(root, pin)
    there = place.exists()
    discard(place)
    return there


def examine(checkout: Path, pin: Pin) -> str:
    """The checkout's commit. Raises OracleFault unless it is a clean checkout of the commit that the pin names."""
    if not checkout.is_dir():
        raise OracleFault(f"--checkout: no folder {checkout}", "name a git checkout of upstream")
    top = Path(_git(checkout, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    if top.resolve() != checkout.resolve():
        raise OracleFault(f"--checkout: {checkout} lies inside the repository {top}", f"name {top}")
    commit = _git(checkout, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()
    if not pin.is_commit(commit):
        raise OracleFault(
            f"--checkout: HEAD of {checkout} is {commit}, and pin {pin.name} names {pin.commit}…",
            f"git -C {checkout} checkout {pin.tag}, or name another pin",
        )
    dirty = _git(checkout, "status", "--porcelain", "--untracked-files=all", "-z").decode(errors="replace")
    changed = [entry for entry in dirty.split("\0") if entry]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise OracleFault(
            f"--checkout: {checkout} is not clean: {changed[0][3:]}{more}",
            "commit, stash or remove what is changed or untracked there",
        )
    return commit


def _fill(aside: Path, checkout: Path, commit: str, pin: Pin, wheel: Path) -> None:
    """Everything of the overlay, and what it holds written down at the end."""
    files: dict[str, str] = {}
    contents = dict(_committed(checkout, commit)) | {"vllm/_version.py": version_module(pin, commit)}
    stub = f"vllm-{pin.reports}+cpu.dist-info"
    contents[f"{stub}/METADATA"] = f"Metadata-Version: 2.1\nName: vllm\nVersion: {pin.reports}+cpu\n".encode()
    for path, content in contents.items():
        target = aside / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        files[path] = "sha256:" + hashlib.sha256(content).hexdigest()
    compiled = sorted(path.name for path in wheel.glob("*.so"))
    if not compiled:
        raise OracleFault(f"the wheel's compiled parts are missing in {wheel}", "install the oracle anew")
    for name in compiled:
        (aside / "vllm" / name).symlink_to(wheel / name)
    manifest = {"pin": pin.name, "commit": commit, "compiled": compiled, "files": files}
    (aside / OVERLAY_MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def version_module(pin: Pin, commit: str) -> bytes:
    """What upstream's build would generate as `vllm/_version.py`."""
    parts = tuple(int(part) if part.isdigit() else part for part in pin.reports.split("."))
    return (
        f'"""Generated for a checkout at {commit}."""\n\n'
        f"__version__ = version = {pin.reports!r}\n"
        f"__version_tuple__ = version_tuple = {parts!r}\n"
        f"__commit_id__ = commit_id = {'g' + commit[:9]!r}\n"
    ).encode()


def _committed(checkout: Path, commit: str) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of every file under `vllm/` in the commit, as git stores them."""
    listing = _git(checkout, "ls-tree", "-r", "-z", commit, "--", "vllm/").decode()
    entries = [entry.split("\t", 1) for entry in listing.split("\0") if entry]
    wanted = [(path, meta.split()[2]) for meta, path in entries if meta.split()[0] in _REGULAR]
    if not wanted:
        raise OracleFault(f"--checkout: {checkout} has no vllm/ in its commit", "name a checkout of upstream")
    blobs = _git(checkout, "cat-file", "--batch", feed="".join(f"{blob}\n" for _, blob in wanted).encode())
    at = 0
    for path, blob in wanted:
        end = blobs.index(b"\n", at)
        name, kind, size = blobs[at:end].decode().split()
        if name != blob or kind != "blob":
            raise OracleFault(f"--checkout: git has no content of {path}", f"git -C {checkout} fsck")
        at = end + 1 + int(size) + 1
        yield path, blobs[end + 1 : at - 1]


def _prove(root: Path, pin: Pin, aside: Path) -> None:
    """Before it is used: the overlay is what the interpreter finds, and its files are the pin's."""
    probed = probe(oracle_python(root, pin), oracle_environment(root, pin, overlay=aside), root, pin)
    require(compare(pin, probed, aside))


def _swap(aside: Path, place: Path) -> None:
    """Put the new overlay where the old one is; a folder cannot replace another, so the old one steps aside."""
    aside.chmod(0o755)
    old = aside.with_name(aside.name.replace(".new-", ".old-"))
    if place.exists():
        place.rename(old)
    try:
        aside.rename(place)
    except OSError:
        if old.exists():
            old.rename(place)
        raise
    discard(old)


def _git(checkout: Path, *words: str, feed: bytes | None = None) -> bytes:
    """What git answers about the checkout. Raises OracleFault with git's own last line."""
    env = {key: value for key, value in os.environ.items() if key not in _OTHER_REPOSITORY} | {"LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "--no-replace-objects", "--no-optional-locks", "-C", str(checkout), *words],
            env=env,
            input=feed if feed is not None else b"",
            capture_output=True,
            timeout=GIT_SECONDS,
        )
    except FileNotFoundError as error:
        raise OracleFault("--checkout needs git, and there is none on the PATH", "install git") from error
    except subprocess.TimeoutExpired as error:
        raise OracleFault(f"git {words[0]} took longer than {GIT_SECONDS:.0f} s", "try again") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OracleFault(
            f"--checkout: {checkout} is not a usable git checkout ({said})",
            "name the top folder of a git checkout of upstream",
        )
    return done.stdout
