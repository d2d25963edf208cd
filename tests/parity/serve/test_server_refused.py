"""What keeps a server from being started and is no fault of its own: the disk's, or a mistake that is found before."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.errors import InconclusiveError, UsageError
from parity.serve import server as server_module
from tests.parity.serve.kit import ROOT, fake_launcher, start_fake
from tests.parity.served import server_config


def test_no_room_for_temporary_files_is_no_fault_of_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

    monkeypatch.setattr(server_module.tempfile, "mkdtemp", full)

    with pytest.raises(InconclusiveError, match="/tmp/x: No space left on device") as caught:
        start_fake(tmp_path, fake_launcher())

    assert "TMPDIR" in (caught.value.hint or "")


def test_a_log_that_cannot_be_written_is_no_fault_of_the_servers(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")

    with pytest.raises(InconclusiveError, match="logs"):
        start_fake(tmp_path, fake_launcher())


def test_a_log_that_somebody_removed_breaks_no_message(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in server_module.last_lines(tmp_path / "gone")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ["{model}-server", "{port}"]}, "no command"),
        ({"command": ["no-such-server", "{model}", "{port}"]}, "there is no command no-such-server"),
        ({"flags": {}}, "no flag for num_blocks"),
    ],
)
def test_what_cannot_be_started_is_found_without_a_start(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    (tmp_path / "tiny-opt").mkdir()
    launcher = msgspec.structs.replace(fake_launcher(), **changes)

    with pytest.raises(UsageError, match=said):
        server_module.check(
            launcher,
            server_config(),
            python=sys.executable,
            models=tmp_path,
            root=ROOT,
            environment=os.environ,
        )


def test_what_can_be_started_is_checked_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "tiny-opt").mkdir()
    given: dict[str, Any] = {"models": tmp_path, "root": ROOT, "environment": os.environ}

    server_module.check(fake_launcher(), server_config(), python=sys.executable, **given)
    with pytest.raises(UsageError, match="make model"):
        server_module.check(fake_launcher(), server_config(model="gone"), python=sys.executable, **given)
