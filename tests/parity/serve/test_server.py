"""Starting a server, the ways in which that can fail, and that nothing of one is left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from parity.errors import UsageError
from parity.observation import Ended
from parity.serve import server as server_module
from parity.serve.keeper import below
from parity.serve.launcher import load_launcher, shipped
from parity.serve.ports import HOST, free_port
from parity.serve.server import STARTS, start
from parity.serve.target import PlayFailed, Target
from tests.parity.serve.kit import ROOT, fake_launcher, lives, start_fake, wait_gone
from tests.parity.served import server_config
from tests.parity.stand_in import engine_launcher


def children() -> set[int]:
    return set(below(os.getpid()))


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves a process, whether its server started or not, and none waits long for a fake one."""
    monkeypatch.setattr(server_module, "PROBE_SECONDS", 1.0)
    before = children()
    yield
    assert wait_gone(children() - before, 5) == []


@contextlib.contextmanager
def taken() -> Iterator[int]:
    """A port on which somebody else listens, and answers nobody."""
    with socket.socket() as held:
        held.bind((HOST, 0))
        held.listen()
        port: int = held.getsockname()[1]
        yield port


def test_a_server_is_started_used_and_closed(tmp_path: Path) -> None:
    with contextlib.closing(start_fake(tmp_path, fake_launcher())) as server:
        target: Target = server

        assert target.alive()
        assert httpx.get(f"{target.base_url}/health", trust_env=False).status_code == 200
        assert target.model == str(tmp_path / "tiny-opt")
        assert target.wait(0.05) == Ended("alive", None, 0)
        assert 0 < server.seconds < 20

    assert not server.alive()
    assert server.wait(0) == Ended("exited", 0, 0)
    assert not lives(server.pid)


def test_ready_means_that_a_tiny_request_completed(tmp_path: Path) -> None:
    with contextlib.closing(start_fake(tmp_path, fake_launcher())) as server:
        assert server.last_words().splitlines()[-1] == (
            'asked for {"model":"tiny-opt","prompt":[5],"max_tokens":1,"temperature":0}'
        )


def test_the_launchers_environment_goes_over_the_sides_and_tmpdir_goes_away(tmp_path: Path) -> None:
    with contextlib.closing(start_fake(tmp_path, fake_launcher())) as server:
        first = server.last_words().splitlines()[0]
        scratch = Path(first.split()[-1])

        assert re.fullmatch(r"starting \d+ by the launcher \S+", first)  # its colours are gone
        assert scratch.is_dir()

    assert not scratch.exists()


def test_an_operators_generation_config_is_a_file_in_a_folder_that_the_flag_names(tmp_path: Path) -> None:
    with contextlib.closing(
        start_fake(tmp_path, fake_launcher("none"), generation_config={"max_new_tokens": 4})
    ) as server:
        folder = Path(server.command[-1])

        assert (folder / "generation_config.json").read_text() == '{"max_new_tokens":4}'

    assert not folder.exists()


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_reaches_the_server_and_its_end_is_told(tmp_path: Path, name: str) -> None:
    with contextlib.closing(start_fake(tmp_path, fake_launcher())) as server:
        server.signal(name)

        assert server.wait(10) == Ended("exited", 0, 0)
        assert server.last_words().splitlines()[-1] == "told to end"
        server.signal(name)  # nobody gets it, and nobody minds


def test_a_server_that_ignores_a_signal_is_alive_and_can_be_closed(tmp_path: Path) -> None:
    with contextlib.closing(start_fake(tmp_path, fake_launcher("deaf"))) as server:
        server.signal("TERM")

        assert server.wait(0.5) == Ended("alive", None, 0)

    assert server.wait(0) == Ended("exited", -signal.SIGKILL, 0)


def test_whoever_outlives_the_server_is_an_orphan_and_ended(tmp_path: Path) -> None:
    note = tmp_path / "helper"
    with contextlib.closing(start_fake(tmp_path, fake_launcher("leaves a helper", str(note)))) as server:
        helper = int(note.read_text())
        assert os.getsid(helper) == helper

        server.signal("TERM")

        assert server.wait(10) == Ended("exited", 0, 1)

    assert wait_gone([helper], 5) == []


def test_a_server_that_dies_later_is_seen_to_be_dead(tmp_path: Path) -> None:
    with contextlib.closing(start_fake(tmp_path, fake_launcher("dies later"))) as server:
        assert server.wait(10) == Ended("exited", 5, 0)
        assert not server.alive()


@pytest.mark.parametrize(
    ("vice", "says"),
    [
        (
            "dies at start",
            r"subject ended with status 3 before it was ready; its last words:\n.*\nno weights$",
        ),
        ("dies at the first request", r"subject ended with status 7 before it was ready"),
        ("never ready", r"subject did not answer /health with 200 within 1 s; its last words:\nstarting "),
        ("drips", r"subject did not answer /health with 200 within 1 s"),
        ("silent", r"subject gave no answer to its first completion \(1 s\)"),
        ("refuses", r'subject answered its first completion with 500: {"error": "no engine"}'),
    ],
)
def test_a_server_that_does_not_come_up_fails_the_play_and_says_how(
    tmp_path: Path, vice: str, says: str
) -> None:
    with pytest.raises(PlayFailed) as failed:
        start_fake(tmp_path, fake_launcher(vice, seconds=20.0 if "dies" in vice else 1.0))

    assert re.search(says, str(failed.value))


def test_a_port_that_somebody_takes_meanwhile_is_given_up_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taken() as port:
        offers = [port, free_port()]
        monkeypatch.setattr(server_module, "free_port", lambda: offers.pop(0))

        with contextlib.closing(start_fake(tmp_path, fake_launcher())) as server:
            assert server.base_url != f"http://{HOST}:{port}"

    assert offers == []


def test_another_server_on_its_port_does_not_pass_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is ready and serves the same model; ours has not even tried to bind."""
    with contextlib.closing(start_fake(tmp_path, fake_launcher())) as other:
        port = int(other.base_url.rpartition(":")[2])
        offers = [port, free_port()]
        monkeypatch.setattr(server_module, "free_port", lambda: offers.pop(0))

        with contextlib.closing(start_fake(tmp_path, fake_launcher("binds late"))) as server:
            assert server.base_url != other.base_url

    assert offers == []


def test_a_server_that_never_gets_a_port_fails_the_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taken() as port:
        monkeypatch.setattr(server_module, "free_port", lambda: port)

        with pytest.raises(
            PlayFailed, match=f"found its port taken {STARTS} times; its last words:"
        ) as failed:
            start_fake(tmp_path, fake_launcher())

    assert "Address already in use" in str(failed.value)


def test_a_command_that_is_not_there_fails_the_play(tmp_path: Path) -> None:
    (tmp_path / "tiny-opt").mkdir()

    with pytest.raises(PlayFailed, match="subject cannot be started: /no/python: No such file or directory"):
        start(
            fake_launcher(),
            server_config(),
            name="subject",
            python="/no/python",
            models=tmp_path,
            root=ROOT,
            environment=os.environ,
            log=tmp_path / "log",
        )


def test_a_model_that_was_not_made_is_a_mistake_of_the_users(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make model"):
        start_fake(tmp_path, fake_launcher(), model="no-model")


def test_a_start_can_be_called_off_from_another_thread(tmp_path: Path) -> None:
    (tmp_path / "tiny-opt").mkdir()
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    begun = time.monotonic()

    with pytest.raises(PlayFailed, match="was called off"):
        start(
            fake_launcher("never ready", seconds=60),
            server_config(),
            name="subject",
            python=sys.executable,
            models=tmp_path,
            root=ROOT,
            environment=os.environ,
            log=tmp_path / "log",
            stop=stop,
        )

    assert time.monotonic() - begun < 15


def test_without_a_keeper_the_server_is_ended_all_the_same(tmp_path: Path) -> None:
    with contextlib.closing(start_fake(tmp_path, fake_launcher("deaf"))) as server:
        keeper = int(Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper, signal.SIGKILL)

        with pytest.raises(PlayFailed, match="the keeper of subject"):
            server.wait(5)
        assert not server.alive()

    assert wait_gone([server.pid], 5) == []


HARNESS = """
import sys, time
from pathlib import Path
from parity.serve.keeper import below
from tests.parity.serve.kit import fake_launcher, start_fake

folder = Path(sys.argv[1])
server = start_fake(folder, fake_launcher("leaves a helper", str(folder / "helper")))
print(*below(server.pid), server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("number", "whole_group"), [(signal.SIGKILL, False), (signal.SIGTERM, False), (signal.SIGINT, True)]
)
def test_nothing_outlives_a_harness_that_dies(
    tmp_path: Path, number: signal.Signals, whole_group: bool
) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HARNESS), str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
    )
    with harness:
        assert harness.stdout is not None
        pids = [*map(int, harness.stdout.readline().split()), int((tmp_path / "helper").read_text())]
        assert all(map(lives, pids))

        (os.killpg if whole_group else os.kill)(harness.pid, number)
        harness.wait(10)

        assert wait_gone(pids, 15) == []


@pytest.mark.model
def test_the_engines_server_is_started_by_its_launcher(tmp_path: Path) -> None:
    from engine.model_files import make_tiny_opt

    (tmp_path / "tiny-opt").mkdir()
    make_tiny_opt(tmp_path / "tiny-opt")
    server = start(
        engine_launcher(),
        server_config(num_blocks=4, generation_config={"max_new_tokens": 3}),
        name="engine",
        python=sys.executable,
        models=tmp_path,
        root=ROOT,
        environment={**os.environ, "OMP_NUM_THREADS": "1"},
        log=tmp_path / "engine.log",
    )
    with contextlib.closing(server):
        body = {"model": "tiny-opt", "prompt": [5, 6, 7], "max_tokens": 9, "ignore_eos": True}
        answer = httpx.post(
            f"{server.base_url}/v1/completions", json=body, trust_env=False, timeout=30
        ).json()
        info = httpx.get(f"{server.base_url}/v1/models", trust_env=False).json()["data"][0]
        server.signal("TERM")
        ended = server.wait(10)

    assert answer["usage"]["completion_tokens"] == 3
    assert (info["id"], info["root"], info["max_model_len"]) == ("tiny-opt", server.model, 64)
    assert ended == Ended("exited", 0, 0)


@pytest.mark.oracle
@pytest.mark.model
def test_upstreams_engine_process_outlives_its_server_and_is_ended(tmp_path: Path) -> None:
    """Measured: API server, resource tracker, EngineCore and Worker in one group; the last three live on after kill -9."""
    from engine.model_files import make_tiny_opt
    from oracle.interpreter import oracle_environment, oracle_python
    from oracle.pins import load_pin

    (tmp_path / "tiny-opt").mkdir()
    make_tiny_opt(tmp_path / "tiny-opt")
    pin = load_pin(ROOT)
    server = start(
        load_launcher(shipped("vllm")),
        server_config(),
        name="oracle",
        python=str(oracle_python(ROOT, pin)),
        models=tmp_path,
        root=ROOT,
        environment=oracle_environment(ROOT, pin),
        log=tmp_path / "oracle.log",
    )
    with contextlib.closing(server):
        helpers = below(server.pid)
        os.kill(server.pid, signal.SIGKILL)

        ended = server.wait(10)

    assert len(helpers) == 3
    assert ended == Ended("exited", -signal.SIGKILL, 3)
    assert wait_gone(helpers, 5) == []


@pytest.mark.parametrize("vice", ["silent", "never ready", "drips"])
def test_a_start_that_hangs_anywhere_is_called_off_at_once(tmp_path: Path, vice: str) -> None:
    (tmp_path / "tiny-opt").mkdir()
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    begun = time.monotonic()

    with pytest.raises(PlayFailed, match="was called off"):
        start(
            fake_launcher(vice, seconds=60),
            server_config(),
            name="subject",
            python=sys.executable,
            models=tmp_path,
            root=ROOT,
            environment=os.environ,
            log=tmp_path / "log",
            stop=stop,
        )

    assert time.monotonic() - begun < 4.0


def test_a_second_try_leaves_the_first_ones_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with taken() as port:
        offers = [port, free_port()]
        monkeypatch.setattr(server_module, "free_port", lambda: offers.pop(0))

        start_fake(tmp_path, fake_launcher()).close()

    log = (tmp_path / "logs" / "fake.log").read_text()
    assert "Address already in use" in log
    assert log.count("starting") == 2
