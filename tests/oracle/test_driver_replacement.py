"""A class in the place of upstream's scheduler: what it lacks is told in a line that names it, before anything is played."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.oracle.driver_process import ROOT, config, oracle_python, request, scenario

CLASSES = """import inspect
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

print("imported, and upstream's habits with it")
A_NUMBER = 7

class Unchanged(Scheduler):
    pass

class Raises(Scheduler):
    def __init__(self, *args, **kwargs):
        raise KeyError("no such table")

class OldSignature(Scheduler):
    def __init__(self, vllm_config, kv_cache_config):
        super().__init__(vllm_config, kv_cache_config)

class NoScheduler:
    def __init__(self, **kwargs):
        self.kv_cache_manager = None

class Other:
    '''No subclass of upstream's, but one that has all that is read; it takes the place of what it is asked for.'''

    def __new__(cls, *args, **kwargs):
        return Scheduler(*args, **kwargs)

class Duck:
    '''What is read of it is upstream's, and it is no Scheduler.'''

    def __init__(self, *args, **kwargs):
        self.__dict__.update(vars(Scheduler(*args, **kwargs)))

    def __getattr__(self, name):
        return inspect.getattr_static(Scheduler, name).__get__(self, Duck)

class Inline(Scheduler):
    def schedule(self):
        output = super().schedule()
        if self.current_step == 2:
            self.running[0].status = RequestStatus.PREEMPTED
        return output

class Endless(Scheduler):
    def update_from_output(self, output, sampled):
        for name, tokens in zip(sampled.req_ids, sampled.sampled_token_ids):
            self.requests[name].append_output_token_ids(tokens)
        return {}

class Odd(Scheduler):
    def schedule(self):
        output = super().schedule()
        self.running.append(None)
        return output
"""
ASK = """
import json, sys
from oracle.driver.environment import fix_environment
fix_environment()
from oracle.driver.errors import DriverError
from oracle.driver.side import Upstream
from oracle.driver.wire import read_scenario

folder, scenario = sys.argv[1], read_scenario(json.loads(sys.argv[2]))
sys.path.insert(0, folder)

def said(name, door="scheduler", play=False):
    side = Upstream(door, scheduler_cls=name)
    try:
        if not play:
            return side.hello().name
        end = side.run(scenario, lambda step, native: None)
        return [end.end.kind, end.plan.warnings]
    except DriverError as fault:
        return str(fault)

names = ["nowhere.Class", "classes.Gone", "classes.A_NUMBER", "broken.Class", "classes.Raises", "classes.OldSignature",
         "classes.NoScheduler", "classes.Other", "classes.Unchanged", "classes.Duck", "again.Unchanged"]
found = {name: said(name) for name in names}
found["core"] = said("classes.Unchanged", "core")
for name in ("Unchanged", "Duck", "Inline", "Endless", "Odd"):
    found["play " + name] = said("classes." + name, play=True)
found["play core"] = said("classes.Unchanged", "core", play=True)
print("FOUND" + json.dumps(found))
"""
PLAYED = scenario(
    "schedule",
    config(num_blocks=8),
    {"requests": [request("r0", 8, 3)], "aborts": [], "resets": [], "max_steps": 20},
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("classes")
    (folder / "classes.py").write_text(CLASSES)
    (folder / "broken.py").write_text("import classes\n\nclasses.nothing_of_this_name()\n")
    (folder / "again.py").write_text("from classes import Unchanged\n")
    done = subprocess.run(
        [str(oracle_python()), "-c", ASK, str(folder), json.dumps(PLAYED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert len(lines) == 1, done.stderr
    value: dict[str, Any] = json.loads(lines[0].removeprefix("FOUND"))
    return value


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "lack"),
    [
        ("nowhere.Class", "it cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("classes.Gone", "it cannot be loaded: AttributeError: module 'classes' has no attribute 'Gone'"),
        ("classes.A_NUMBER", "it is no class, its type is int"),
        (
            "broken.Class",
            "it cannot be loaded: AttributeError: module 'classes' has no attribute 'nothing_of_this_name' (broken.py:3)",
        ),
        ("classes.Raises", "upstream does not start: KeyError: 'no such table' (classes.py:13)"),
        (
            "classes.OldSignature",
            "upstream does not start: TypeError: OldSignature.__init__() got an unexpected keyword argument "
            "'structured_output_manager'",
        ),
        (
            "classes.Other",
            "setting scheduler class did not stand: asked for 'classes.Other', upstream has "
            "'vllm.v1.core.sched.scheduler.Scheduler'",
        ),
    ],
)
def test_a_class_that_cannot_be_had_is_named_with_what_is_wrong(
    said: dict[str, Any], name: str, lack: str
) -> None:
    assert said[name] == f"scheduler class {name}: {lack}"


@pytest.mark.oracle
def test_what_a_class_lacks_of_a_scheduler_is_listed_once(said: dict[str, Any]) -> None:
    fault = said["classes.NoScheduler"]

    assert fault.startswith("scheduler class classes.NoScheduler: the scheduler has no add_request, ")
    assert "schedule" in fault
    assert fault.count("kv_cache_manager.block_pool") == 1
    assert fault.endswith("which the driver needs")


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["classes.Unchanged", "classes.Duck", "again.Unchanged"])
def test_a_class_that_has_what_is_read_says_hello_by_its_name(said: dict[str, Any], name: str) -> None:
    assert said[name] == name


@pytest.mark.oracle
def test_a_class_plays_through_either_door_and_upstreams_warning_of_it_is_no_observation(
    said: dict[str, Any],
) -> None:
    assert said["core"] == "classes.Unchanged"
    assert said["play Unchanged"] == said["play Duck"] == said["play core"] == ["done", []]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "lack"),
    [
        ("Inline", "preemptions noted [] in calls of _preempt_request, but states show ['r0']"),
        ("Endless", "r0 was scheduled after the last of its 3 forced tokens"),
        ("Odd", "AttributeError: 'NoneType' object has no attribute 'request_id'"),
    ],
)
def test_a_class_that_cannot_be_followed_is_named(said: dict[str, Any], name: str, lack: str) -> None:
    assert said[f"play {name}"] == f"scheduler class classes.{name}: {lack}"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--scheduler-cls", "Scheduler"], "'Scheduler' is no PKG.CLASS"),
        (["--scheduler-cls", "pkg.Class", "--path", "no-folder"], "there is no folder no-folder"),
        (["--path", "."], "--path is where --scheduler-cls is looked for"),
    ],
)
def test_options_that_lead_to_no_class_are_refused_at_once(options: list[str], complaint: str) -> None:
    done = subprocess.run(
        [str(oracle_python()), "-m", "oracle.driver", *options], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(complaint)


def test_all_that_is_read_of_a_scheduler_stands_in_the_protocol() -> None:
    source = (
        (ROOT / "oracle" / "driver" / "state.py").read_text().partition("READ = (")[2].partition("\n)\n")[0]
    )
    names = [name for quoted in source.split('"')[1::2] for name in quoted.split(".")]
    page = (ROOT / "docs" / "protocol.md").read_text()

    assert len(names) > 20
    assert [name for name in names if f"`{name}`" not in page] == []
