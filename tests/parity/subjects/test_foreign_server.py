"""The worked examples: upstream's server as anyone's, and the same with one fault around it, whose it is."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parity.ask import Ask
from parity.finding import Outcome, Verdict
from parity.report.progress import RunProgress
from parity.root import CODE_ROOT
from parity.session import run
from parity.subjects.choice import sort_out
from parity.subjects.subject import Loaded, load_subject
from parity.suite import load_suite

EXAMPLES = CODE_ROOT / "examples"
WEDGE = "serving/null-block-wedge"
Message = MutableMapping[str, Any]


def example(name: str) -> Loaded:
    return load_subject(EXAMPLES / f"{name}.toml")


def test_the_two_differ_in_the_fault_alone() -> None:
    foreign, broken = example("foreign-server").subject, example("broken-server").subject
    assert foreign.door.serve is not None
    assert broken.door.serve is not None

    more = broken.door.serve.command[len(foreign.door.serve.command) :]

    assert more == ["--middleware", "broken_server.fault.UnhealthyWhileStuck"]
    door = msgspec.structs.replace(broken.door.serve, command=foreign.door.serve.command)
    assert door == foreign.door.serve


def test_every_script_can_be_asked_of_the_foreign_server() -> None:
    scripts = [case for case in load_suite(CODE_ROOT) if case.scenario.level == "serve"]

    assert sort_out(scripts, [example("foreign-server")]) == (scripts, ())


class App:
    """An application that answers `/slow` when it is released, and everything else at once."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def __call__(self, scope: Message, _receive: Any, send: Any) -> None:
        if scope["path"].endswith("/slow"):
            await self.release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def load_fault() -> Any:
    spec = importlib.util.spec_from_file_location("fault", EXAMPLES / "broken_server" / "fault.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_fault_shows_while_a_request_is_without_a_byte_and_not_before_or_after() -> None:
    fault = load_fault()
    fault.PATIENCE = 0.05

    async def statuses() -> list[int]:
        app = App()
        broken = fault.UnhealthyWhileStuck(app)

        async def get(path: str) -> int:
            sent: list[Message] = []

            async def send(message: Message) -> None:
                sent.append(message)

            await broken({"type": "http", "path": path}, None, send)
            status: int = sent[0]["status"]
            return status

        seen = [await get("/health"), await get("/v1/models")]
        slow = asyncio.create_task(get("/v1/slow"))
        await asyncio.sleep(0)
        seen.append(await get("/health"))
        await asyncio.sleep(0.1)
        seen.append(await get("/health"))
        app.release.set()
        return [*seen, await slow, await get("/health")]

    assert asyncio.run(statuses()) == [200, 200, 200, 503, 200, 200]


def played(name: str, folder: Path) -> Outcome:
    ask = Ask(CODE_ROOT, ids=(WEDGE,), subject=str(EXAMPLES / f"{name}.toml"), out=folder / "run.jsonl")
    return run(ask, RunProgress()).outcome


@pytest.mark.oracle
@pytest.mark.model
def test_the_planted_fault_is_the_subjects_and_the_wedge_is_both_sides(tmp_path: Path) -> None:
    outcome = played("broken-server", tmp_path)

    assert outcome.exit_code == 1
    (result,) = outcome.scenarios
    found = {
        (item.finding.attribution, item.finding.property, item.finding.at): item for item in result.decided
    }
    planted = found.pop(("ours", "health-tells-the-truth", "exchanges[1].status"))
    assert planted.verdict is Verdict.NEW
    assert (planted.finding.oracle, planted.finding.subject) == (200, 503)
    ((whose, name, at),) = found
    assert (whose, name, at) == ("mirrored", "answers", "exchanges[0].ending")


@pytest.mark.oracle
@pytest.mark.model
def test_the_foreign_server_does_what_upstream_does_to_the_last_field(tmp_path: Path) -> None:
    """It has the founding case as upstream has it: a finding of both, which a record has to decide."""
    outcome = played("foreign-server", tmp_path)

    (result,) = outcome.scenarios
    (item,) = result.decided
    assert (item.finding.attribution, item.finding.property) == ("mirrored", "answers")
    assert item.finding.oracle_digest == item.finding.subject_digest
    assert result.unobserved == 0
