"""Environments are filled once, shared safely, and run the clone's own code; failures say what to do."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle import environment
from oracle.environment import ensure_main, main, read_stamp
from oracle.errors import OracleFault
from oracle.steps import Progress, way_out

ROOT = Path(__file__).resolve().parents[2]
MakeWheel = Callable[..., Path]


def make_clone(root: Path, wheels: Path, build_wheel: MakeWheel, says: str = "own code") -> Path:
    """A clone whose locks name tiny wheels, and whose command prints `says` and its arguments."""
    (root / "parity").mkdir(parents=True)
    (root / "parity" / "__init__.py").write_text("")
    (root / "parity" / "__main__.py").write_text(f"import sys, basedep\nprint({says!r}, *sys.argv[1:])\n")
    (root / "requirements").mkdir()
    base = build_wheel(wheels, "basedep", "1.0", {"basedep.py": ""})
    test = build_wheel(wheels, "testdep", "1.0", {"testdep.py": ""})
    (root / "requirements" / "base.lock").write_text(f"{base}\n")
    (root / "requirements" / "test.lock").write_text(f"{base}\n{test}\n")
    return root


def make(root: Path, *locks: str) -> str:
    """Ensure the main environment; the progress that was shown."""
    stream = io.StringIO()
    ensure_main(root, locks, Progress("setup", stream))
    return stream.getvalue()


def run(*command: Path | str, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def _filled_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[MakeWheel], Path]:
    folder = tmp_path_factory.mktemp("filled")

    def filled(build_wheel: MakeWheel) -> Path:
        if not (folder / "a clone").exists():
            make(make_clone(folder / "a clone", folder / "wheels", build_wheel), "base")
        return folder / "a clone"

    return filled


@pytest.fixture
def clone(
    _filled_once: Callable[[MakeWheel], Path],
    make_wheel: MakeWheel,
    tmp_path: Path,
    isolated: None,  # noqa: ARG001
) -> Path:
    """A clone with an environment of its own that holds base; moved from where it was made."""
    return shutil.copytree(_filled_once(make_wheel), tmp_path / "my clone", symlinks=True)


def test_the_command_runs_the_clones_own_code_from_anywhere(clone: Path, tmp_path: Path) -> None:
    elsewhere = make_clone(tmp_path / "other", tmp_path / "w", lambda *_: Path("x"), "another clone")
    make(clone, "base")

    assert run(clone / ".venv/bin/parity", "a b", "c", cwd=elsewhere) == "own code a b c"
    assert run(clone / ".venv/bin/python", "-m", "parity", cwd=tmp_path) == "own code"


def test_the_engines_command_stands_beside_it(clone: Path, tmp_path: Path) -> None:
    verb = clone / "engine" / "cli" / "main.py"
    verb.parent.mkdir(parents=True)
    verb.write_text("import sys, basedep\nprint('the engine', *sys.argv[1:])\n")

    assert run(clone / ".venv/bin/nullblock", "plan", "a b", cwd=tmp_path) == "the engine plan a b"


def test_a_link_to_the_command_finds_its_clone(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "parity").symlink_to(clone / ".venv/bin/parity")

    assert run(tmp_path / "parity", cwd=tmp_path) == "own code"


def test_a_second_call_installs_nothing_and_is_quick(clone: Path) -> None:
    make(clone, "base")
    began = time.monotonic()

    shown = make(clone, "base")

    assert shown == ""
    assert time.monotonic() - began < 0.5


def test_another_lock_is_added_to_what_is_there(clone: Path) -> None:
    (clone / ".venv/marker").write_text("")

    make(clone, "test")

    assert (clone / ".venv/marker").exists()
    assert run(clone / ".venv/bin/python", "-c", "import testdep, basedep; print(1)", cwd=clone) == "1"
    assert make(clone, "base") == ""
    assert set(read_stamp(clone / ".venv")) == {"base", "test"}


def test_a_changed_lock_makes_the_environment_anew(clone: Path) -> None:
    lock = clone / "requirements/base.lock"
    (clone / ".venv/left-over").write_text("")
    lock.write_text(lock.read_text() + "# changed\n")

    shown = make(clone, "base")

    assert "installing requirements/base.lock" in shown
    assert not (clone / ".venv/left-over").exists()


def test_an_interrupted_filling_is_done_anew(clone: Path) -> None:
    (clone / ".venv/nullblock.json").unlink()
    (clone / ".venv/left-over").write_text("")

    make(clone, "base")

    assert not (clone / ".venv/left-over").exists()
    assert run(clone / ".venv/bin/parity", cwd=clone) == "own code"


def test_an_environment_without_whole_stamp_or_interpreter_holds_nothing(clone: Path) -> None:
    stamp, python = clone / ".venv/nullblock.json", clone / ".venv/bin/python"
    whole = stamp.read_text()
    assert set(read_stamp(clone / ".venv")) == {"base"}

    stamp.write_text(whole[:20])
    assert read_stamp(clone / ".venv") == {}

    stamp.write_text(whole)
    python.unlink()
    python.symlink_to(clone / "gone")
    assert read_stamp(clone / ".venv") == {}


def test_a_failed_step_says_which_with_its_command_and_leaves_no_stamp(clone: Path) -> None:
    (clone / "requirements/test.lock").write_text("no-such-wheel.whl\n")

    with pytest.raises(OracleFault) as raised:
        make(clone, "test")

    assert raised.value.message.startswith("this step failed: installing requirements/test.lock")
    assert "-m pip" in raised.value.detail
    assert "no-such-wheel.whl" in raised.value.detail
    assert raised.value.hint
    assert read_stamp(clone / ".venv") == {}


def test_without_a_network_the_way_out_names_it(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone / "requirements/test.lock").write_text("nullblock-no-such-package==1.0\n")
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "1",
        "no_proxy": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(OracleFault, match="the package index cannot be reached"):
        make(clone, "test")


def test_the_command_line_shows_the_failure_and_exits_with_1(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "ROOT", clone)
    (clone / "requirements/base.lock").unlink()

    code = main(["main", "--lock", "base"])

    assert code == 1
    shown = capsys.readouterr().err
    assert "requirements/base.lock cannot be read" in shown
    assert "way out: restore it" in shown
    assert "Traceback" not in shown


def test_a_shared_folder_that_cannot_be_is_one_message(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(environment, "ROOT", clone)
    monkeypatch.setenv("NULLBLOCK_ENVS", str(tmp_path / "file" / "envs"))

    assert main(["main", "--lock", "base"]) == 1

    assert "set NULLBLOCK_ENVS to one that is" in capsys.readouterr().err


@pytest.mark.usefixtures("isolated")
def test_two_clones_that_start_at_once_share_one_environment(make_wheel: MakeWheel, tmp_path: Path) -> None:
    envs = tmp_path / "shared envs"
    clones = [
        make_clone(tmp_path / name, tmp_path / "wheels", make_wheel, f"code of {name}") for name in ("a", "b")
    ]
    script = (
        "import sys; from pathlib import Path; from oracle.environment import ensure_main; "
        "from oracle.steps import Progress; ensure_main(Path(sys.argv[1]), ['base'], Progress('setup'))"
    )
    env = os.environ | {"NULLBLOCK_ENVS": str(envs), "PYTHONPATH": str(ROOT)}
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(clone)], env=env, stderr=subprocess.PIPE, text=True
        )
        for clone in clones
    ]
    shown = [process.communicate()[1] for process in starts]

    assert [process.returncode for process in starts] == [0, 0]
    assert sum("making a virtual environment" in text for text in shown) == 1
    assert sum("waiting for another set-up" in text for text in shown) == 1
    (folder,) = [path for path in envs.iterdir() if path.is_dir()]
    installed = {path.name for path in folder.glob("lib/*/site-packages/*.dist-info")}
    assert "basedep-1.0.dist-info" in installed
    assert not any(name.startswith(("nullblock", "parity")) for name in installed)
    assert not list(folder.rglob("nullblock-clone.pth"))
    for clone, name in zip(clones, ("a", "b"), strict=True):
        assert run(clone / ".venv/bin/parity", "x", cwd=tmp_path) == f"code of {name} x"
        assert not (clone / ".venv/pyvenv.cfg").exists()


def test_a_clone_changes_from_its_own_environment_to_a_shared_one_and_back(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NULLBLOCK_ENVS", str(tmp_path / "envs"))
    make(clone, "base")
    shared = run(clone / ".venv/bin/python", "-c", "import sys; print(sys.prefix)", cwd=clone)
    assert make(clone, "base") == ""

    monkeypatch.delenv("NULLBLOCK_ENVS")
    remembered = run(
        clone / ".venv/bin/python", "-c", "import os; print(os.environ['NULLBLOCK_ENVS'])", cwd=clone
    )
    make(clone, "base")
    own = run(clone / ".venv/bin/python", "-c", "import sys; print(sys.prefix)", cwd=clone)

    assert Path(shared).parent == tmp_path / "envs"
    assert remembered == str(tmp_path / "envs")
    assert own == str(clone / ".venv")
    assert run(clone / ".venv/bin/parity", cwd=tmp_path) == "own code"


def test_an_old_python_is_told_so_in_one_line() -> None:
    pretend = (
        "import sys, runpy; sys.version_info = (3, 9, 2, 'final', 0); "
        "runpy.run_module('oracle.environment', run_name='__main__')"
    )

    done = subprocess.run([sys.executable, "-c", pretend], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 1
    assert "is Python 3.9, and Nullblock needs 3.11 or newer — run: make PYTHON=" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_oracle_side_needs_nothing_but_the_standard_library() -> None:
    modules = "environment steps errors pins interpreter verify install checkout symbols"
    script = "import sys; sys.path.insert(0, sys.argv[1])\n" + "".join(
        f"import oracle.{name}\n" for name in modules.split()
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(ROOT)], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("printed", "advice"),
    [
        ("OSError: [Errno 28] No space left on device", "free some space"),
        ("The virtual environment was not created: ensurepip is not available.", "no venv module"),
        ("/usr/bin/python3: No module named venv", "no venv module"),
        ("Failed to establish: [Errno -3] Temporary failure in name resolution", "check the network"),
        ("ERROR: No matching distribution found for torch==2.13.0", "use Python 3.11 on x86_64 Linux"),
        ("[Errno 13] Permission denied: '/envs'", "NULLBLOCK_ENVS"),
        ("something new", "mend what the output above says"),
    ],
)
def test_each_usual_failure_has_its_way_out(printed: str, advice: str) -> None:
    assert advice in way_out(printed)


def test_a_long_step_shows_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oracle.steps.FIRST_SIGN_SECONDS", 0.3)
    stream = io.StringIO()
    script = "import time; print('Collecting torch', flush=True); time.sleep(0.8)"

    Progress("setup", stream).run("installing", [sys.executable, "-c", script], os.environ, tmp_path)

    shown = stream.getvalue().splitlines()
    assert shown[0].endswith("installing")
    assert shown[1].endswith("… Collecting torch")


def test_a_program_that_cannot_be_started_is_a_failed_step(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\n")
    script.chmod(stat.S_IRUSR)

    with pytest.raises(OracleFault, match="cannot be started"):
        Progress("setup", io.StringIO()).run("making", [script], os.environ)
