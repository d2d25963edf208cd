"""What was compiled is kept, is thrown away where it is broken, and is not needed to get on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.model

SAYS = """
import torch
from engine.kernels import compiled, product
kept = compiled.is_kept("product")
product.prepare()
compiled.keep("product")
three = product.product(torch.ones(2, 3), torch.ones(7, 3), torch.zeros(7))
print(kept, float(three.min()), float(three.max()), compiled.FOLDER)
"""


def said(folder: Path, program: str = SAYS, **settings: str) -> list[str]:
    env = os.environ | {"NUMBA_CACHE_DIR": str(folder)} | settings
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_kernels_are_kept_and_a_broken_file_is_compiled_anew(tmp_path: Path) -> None:
    kept, *answer, folder = said(tmp_path)
    assert (kept, answer) == ("False", ["3.0", "3.0"])
    assert Path(folder).parent == tmp_path
    files = [*Path(folder).rglob("*.nbi"), *Path(folder).rglob("*.nbc")]
    assert len(files) >= 2

    for file in files:
        file.write_bytes(file.read_bytes()[:10])
    kept, *answer, _ = said(tmp_path)

    assert (kept, answer) == ("True", ["3.0", "3.0"])
    assert all(file.stat().st_size > 10 for file in Path(folder).rglob("*.nb?"))


def test_where_nothing_can_be_kept_kernels_are_compiled_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    assert said(tmp_path / "file")[:] == ["False", "3.0", "3.0", "None"]


def test_where_nothing_more_can_be_kept_kernels_are_compiled_all_the_same(tmp_path: Path) -> None:
    full = "import numba.core.caching as c\ndef full(*_): raise OSError(28, 'No space left on device')\n"
    program = full + "c.IndexDataCacheFile._save_data = full\n" + SAYS

    assert said(tmp_path, program)[:3] == ["False", "3.0", "3.0"]


def test_a_read_only_source_keeps_its_kernels_at_home_under_the_same_digest(tmp_path: Path) -> None:
    program = "import os; access = os.access\nos.access = lambda path, mode: 'pycache' not in str(path) and access(path, mode)\n"
    program += "from engine.kernels import compiled; print(compiled.FOLDER)"

    found = said(tmp_path, program, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path / "home"))

    beside = said(tmp_path, "from engine.kernels import compiled; print(compiled.FOLDER)", NUMBA_CACHE_DIR="")
    assert Path(found[0]).parent == tmp_path / "home" / "nullblock"
    assert Path(found[0]).name == Path(beside[0]).name


def test_with_numba_switched_off_the_plain_twins_compute(tmp_path: Path) -> None:
    program = "import torch; from engine.kernels import team; print(team.usable(torch.float32, torch.device('cpu')))"

    assert said(tmp_path, program) == ["True"]
    assert said(tmp_path, program, NUMBA_DISABLE_JIT="1") == ["False"]
