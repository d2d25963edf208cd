"""`parity smoke` on the zoo: what is claimed is exercised, and the adapter's faults are told from the engine's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from parity.cli.main import main
from parity.errors import ExitCode
from parity.observation import Step
from parity.root import CODE_ROOT
from parity.subjects import smoke_serve
from parity.subjects.capabilities import OF_LEVELS
from parity.subjects.fields import FIELDS
from parity.subjects.ignoring import IGNORING, SHOWS_IN
from tests.parity.serve.kit import FAKE
from tests.parity.zoo.kit import GOLDEN, write_subject

Smoked = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def smoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Smoked:
    monkeypatch.chdir(CODE_ROOT)

    def run(vice: str, **limits: Any) -> tuple[int, dict[str, Any]]:
        code = main(["smoke", str(write_subject(tmp_path, vice, **limits)), "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else {}

    return run


def states(told: dict[str, Any], what: str) -> dict[str, str]:
    return {line["name"]: line["state"] for line in told["lines"] if line["what"] == what}


def faults(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [line for line in told["lines"] if line["whose"] == "adapter"]


def test_the_honest_one_is_sound_and_all_of_it_is_exercised(smoked: Smoked) -> None:
    code, told = smoked("honest")

    assert (code, told["is_sound"], told["faults"], told["differences"]) == (0, True, 0, 0)
    assert told["played"] == len(GOLDEN)
    assert set(states(told, "scenario").values()) == {"ok"}
    assert states(told, "capability") == dict.fromkeys(OF_LEVELS["schedule"], "ok")
    fields = states(told, "field")
    assert [name for name, state in fields.items() if state != "ok"] == [
        "schedule: plan.estimated_max_model_len"
    ]
    assert len(fields) == len(FIELDS["plan"]) + len(FIELDS["schedule"])
    assert (told["subject"], told["version"]) == ("zoo", "1")


def test_every_capability_has_what_it_is_without() -> None:
    assert list(IGNORING) == list(SHOWS_IN)
    assert set(IGNORING) == set(OF_LEVELS["schedule"])
    assert set(SHOWS_IN.values()) <= set(FIELDS["schedule"])


@pytest.mark.parametrize("capability", OF_LEVELS["schedule"])
def test_a_capability_that_is_claimed_and_ignored_does_not_hold(capability: str, smoked: Smoked) -> None:
    code, told = smoked(f"ignores {capability}")

    assert code == ExitCode.FINDINGS
    unmet = [line["name"] for line in faults(told) if line["what"] == "capability"]
    assert capability in unmet
    assert told["is_sound"] is False


@pytest.mark.parametrize("field", Step.__struct_fields__)
def test_a_field_that_is_claimed_and_always_blank_does_not_hold(field: str, smoked: Smoked) -> None:
    code, told = smoked(f"blanks {field}")

    assert code == ExitCode.FINDINGS
    unmet = [line["name"] for line in faults(told) if line["what"] == "field"]
    assert unmet == [f"schedule: steps.{field}"]


@pytest.mark.parametrize(
    "vice", ["one-block-too-many", "preempts-the-oldest", "never-stalls", "forgets-to-free"]
)
def test_what_the_engine_does_otherwise_is_shown_and_no_fault_of_the_adapters(
    vice: str, smoked: Smoked
) -> None:
    code, told = smoked(vice)

    assert told["differences"] > 0
    assert all(line["whose"] == "engine" for line in told["lines"] if line["state"] == "differs")
    assert (code, faults(told)) == (0, [])


@pytest.mark.parametrize(
    ("vice", "step", "state", "says"),
    [
        ("another-every-second-run", 20, "flaky", "plays 1 and 2 differ at "),
        ("lacks-a-field", 20, "broken", "missing required field `free`"),
    ],
)
def test_the_adapters_faults_are_told(vice: str, step: float, state: str, says: str, smoked: Smoked) -> None:
    code, told = smoked(vice, step=step)

    assert code == ExitCode.FINDINGS
    assert [line for line in faults(told) if line["state"] == state and says in line["detail"]]


@pytest.mark.parametrize(
    ("vice", "step", "says"),
    [
        ("dies-after-hello", 20, "status 7; its last words: RuntimeError: no such device"),
        ("wrong-seq", 20, "a line out of turn"),
        ("not-json", 20, "not JSON"),
        ("half-a-line-then-quiet", 0.5, "no answer for 0.5 s after half a line"),
        ("talks-then-quiet", 0.5, "loading weights: 12 %"),
    ],
)
def test_where_nothing_can_be_trusted_nothing_is_concluded(
    vice: str, step: float, says: str, smoked: Smoked
) -> None:
    code, told = smoked(vice, step=step)

    assert code == ExitCode.INCONCLUSIVE
    assert (told["is_sound"], told["played"]) == (False, len(GOLDEN))
    assert says in faults(told)[0]["detail"]


@pytest.mark.parametrize("vice", ["answers-twice", "speaks-after-the-end", "dies-after-the-end"])
def test_what_comes_behind_the_end_is_the_adapters(vice: str, smoked: Smoked) -> None:
    code, told = smoked(vice)

    assert code in (ExitCode.FINDINGS, ExitCode.INCONCLUSIVE)
    assert faults(told)


@pytest.mark.parametrize(
    ("vice", "says", "next_"),
    [
        ("denies", "does not confirm capability", "the adapter is at fault"),
        ("dies-at-start", "did not start: the process ended with status 3", "mend the adapter"),
        ("hello-nonsense", "hello was not answered", "docs/protocol.md"),
    ],
)
def test_a_start_that_fails_is_one_line_and_inconclusive(
    vice: str,
    says: str,
    next_: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(CODE_ROOT)

    assert main(["smoke", str(write_subject(tmp_path, vice))]) == ExitCode.INCONCLUSIVE

    said = capsys.readouterr()
    assert said.out == ""
    last = said.err.splitlines()[-1]
    assert last.startswith("parity: ")
    assert says in last
    assert next_ in last


def test_only_what_is_claimed_is_asked(smoked: Smoked) -> None:
    few = ["auto-fit", "forced-tokens", "step-trace"]

    code, told = smoked("honest", capabilities=json.dumps(few))

    assert code == 0
    assert told["played"] == sum(set(item.needs) <= set(few) for item in GOLDEN.values())
    assert set(states(told, "capability")) == set(few)
    assert states(told, "capability")["forced-tokens"] == "unexercised"


def test_who_claims_too_little_to_be_asked_anything_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CODE_ROOT)
    path = write_subject(tmp_path, "honest", capabilities="[]")
    path.write_text(path.read_text().replace('levels = ["plan", "schedule"]', 'levels = ["schedule"]'))

    assert main(["smoke", str(path)]) == ExitCode.INCONCLUSIVE

    assert "claims too little" in capsys.readouterr().err


@pytest.mark.parametrize("profile", ["renamed", "counts", "aggregate"])
def test_a_coarser_profile_is_smoked_in_its_own_form(profile: str, smoked: Smoked) -> None:
    code, told = smoked("honest", profile=profile)

    assert (code, told["faults"], told["differences"]) == (0, 0, 0)


def test_the_report_names_whose_it_is_and_what_to_do_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CODE_ROOT)
    sound, unsound = tmp_path / "sound", tmp_path / "unsound"
    for folder in (sound, unsound):
        folder.mkdir()

    assert main(["smoke", str(write_subject(sound, "one-block-too-many"))]) == 0
    first = capsys.readouterr()
    assert main(["smoke", str(write_subject(unsound, "ignores priority"))]) == 1
    second = capsys.readouterr()

    lines = first.out.splitlines()
    assert lines[0].startswith("smoke of zoo 1 against the golden lines of vllm-0.27.1")
    assert lines[-2].startswith("the adapter is sound; the engine differs from upstream in ")
    assert lines[-1] == f"next: parity run --subject {sound / 'zoo.toml'}"
    assert "starting zoo" in first.err
    assert "playing" in first.err
    assert "  capability priority: NOT MET — " in second.out
    assert second.out.splitlines()[-1].startswith(
        "next: do what is claimed, or take priority out of the subject's file"
    )


def test_the_engine_in_process_is_sound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CODE_ROOT)
    path = tmp_path / "inside.toml"
    path.write_text(
        'name = "inside"\nlevels = ["plan", "schedule"]\ncapabilities = "all"\nrecords = "."\nsuite = "0.1"\n'
        "[door]\ninprocess = true\n"
    )

    assert main(["smoke", str(path), "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["version"], told["played"], told["differences"]) == (None, len(GOLDEN), 0)


class Answers(BaseHTTPRequestHandler):
    """A server that answers what it is told to, by path."""

    answers: ClassVar[dict[str, tuple[int, str]]] = {}

    def do_GET(self) -> None:
        status, body = self.answers.get(self.path, (404, ""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


LOAD = "\n".join(
    f"vllm:{name} 0"
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "num_preemptions_total",
    )
)
WHOLE = {"/health": (200, ""), "/v1/completions": (200, "{}"), "/metrics": (200, LOAD)}


@pytest.fixture
def server() -> Iterator[str]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.mark.parametrize(
    ("answers", "code", "doors", "metrics"),
    [
        (WHOLE, 0, ["ok", "ok"], "ok"),
        ({**WHOLE, "/metrics": (200, "python_info 1")}, 1, ["ok", "ok"], "unmet"),
        ({**WHOLE, "/v1/completions": (500, "no")}, 1, ["ok", "broken"], "ok"),
        ({}, 2, ["broken", "broken"], "unmet"),
    ],
)
def test_a_server_that_runs_is_asked_its_health_one_completion_and_its_metrics(
    answers: dict[str, tuple[int, str]],
    code: int,
    doors: list[str],
    metrics: str,
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(CODE_ROOT)
    monkeypatch.setattr(Answers, "answers", answers)
    path = tmp_path / "running.toml"
    path.write_text(
        'name = "running"\nlevels = ["serve"]\ncapabilities = ["metrics", "signals"]\nrecords = "."\nsuite = "0.1"\n'
        f'[door.http]\nurl = "{server}"\nconfig = {{model = "tiny-opt", num_blocks = 4}}\n'
    )

    assert main(["smoke", str(path), "--json"]) == code

    told = json.loads(capsys.readouterr().out)
    assert list(states(told, "door").values()) == doors
    assert states(told, "capability") == {"metrics": metrics, "signals": "unexercised"}


@pytest.mark.parametrize(
    ("vice", "capabilities", "code", "states_", "says"),
    [
        ("none", [], 0, ["ok"], "ready and one token completed"),
        ("none", ["metrics"], 1, ["ok", "unmet"], "/metrics cannot be read"),
        ("dies at the first request", [], 2, ["broken"], "ended with status 7 before it was ready"),
        ("refuses", [], 2, ["broken"], "answered its first completion with 500"),
        ("never ready", [], 2, ["broken"], "did not answer /health with 200 within 2 s"),
    ],
)
def test_a_server_that_is_started_completes_one_token(
    vice: str,
    capabilities: list[str],
    code: int,
    states_: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(CODE_ROOT)
    monkeypatch.setattr(smoke_serve, "check_models", lambda _: None)
    monkeypatch.setattr(smoke_serve, "MODELS", tmp_path)
    for model in ("tiny-opt", "smollm2-135m-instruct"):
        (tmp_path / model).mkdir()
    path = tmp_path / "served.toml"
    command = json.dumps(["{python}", str(FAKE), "{port}", vice, "{model}"])
    can = json.dumps(["start-flags", "float32-weights", *capabilities])
    shows = json.dumps(
        ["exchanges.ending", "exchanges.status", *(["after"] if "metrics" in capabilities else [])]
    )
    flags = "num_blocks = []\nmax_model_len = []\n"
    path.write_text(
        f'name = "served"\nlevels = ["serve"]\ncapabilities = {can}\nrecords = "."\nsuite = "0.1"\n'
        f'[door.serve]\ncommand = {command}\n[door.serve.ready]\npath = "/health"\nseconds = 2\n'
        f"[door.serve.flags]\n{flags}[observes]\nserve = {shows}\n"
    )

    assert main(["smoke", str(path), "--json"]) == code

    lines = [line for line in json.loads(capsys.readouterr().out)["lines"] if line["state"] != "unexercised"]
    assert [line["state"] for line in lines] == states_
    assert says in lines[-1]["detail"]
