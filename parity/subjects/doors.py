"""The doors of a subject: how its scenarios reach it. docs/plug-in.md has them for people."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from parity.defaults import ServerConfigForm, build_server_config
from parity.scenario import ServerConfig
from parity.serve.launcher import Arguments, Flag, Launcher, Ready

Wait = Annotated[float, Meta(gt=0.0, le=3600.0)]  # seconds
ClassPath = Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]


class ProcessDoor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Anything that reads and writes JSON lines (docs/protocol.md).

    `{python}` in `command` is the interpreter that the harness runs
    in. `environment` is laid over the caller's. The waits are for the answer to hello, between two lines, and for
    one scenario as a whole.
    """

    command: Annotated[Arguments, Meta(min_length=1)]
    environment: dict[str, str] = {}
    handshake: Wait = 60.0
    step: Wait = 30.0
    scenario: Wait = 120.0


class SchedulerDoor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"class_": "class"}):
    """A class in the place of upstream's scheduler, loaded by upstream's own `scheduler_cls` in the oracle's environment.

    `path` are folders, from the subject's file, that are put before the module search path.
    """

    class_: ClassPath
    path: tuple[str, ...] = (".",)


class ServeDoor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server that the harness starts for each configuration, as a launcher says (`parity.serve.launcher`).

    `python` is the interpreter that `{python}` stands for:
    the harness's own, or that of the oracle's environment.
    """

    command: Annotated[Arguments, Meta(min_length=1)]
    ready: Ready
    flags: dict[str, Flag] = {}
    environment: dict[str, str] = {}
    policy: Arguments | None = None
    python: Annotated[str, Meta(pattern="^(harness|oracle)$")] = "harness"

    def launcher(self, name: str) -> Launcher:
        return Launcher(name, self.command, self.ready, self.flags, self.environment, self.policy)


class HttpDoor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server that runs already, at `url`, started with `config` (keys of docs/config.md; the others are the defaults).

    Scenarios that need it started otherwise are not compared, and counted as unobserved.
    """

    url: Annotated[str, Meta(pattern=r"^http://[^/\s?#@]+/?$")]
    config: ServerConfigForm

    @property
    def is_address(self) -> bool:
        """Whether a connection could be asked for at all."""
        try:
            place = urlsplit(self.url)
            return bool(place.hostname) and place.port != 0
        except ValueError:
            return False

    @property
    def started(self) -> ServerConfig:
        """The configuration that it was started with, every key of it."""
        return build_server_config(self.config)


class Doors(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"scheduler_cls": "scheduler-cls"}
):
    """At most one door for the levels plan and schedule, at most one for level serve, and one at least."""

    inprocess: bool = False
    process: ProcessDoor | None = None
    scheduler_cls: SchedulerDoor | None = None
    serve: ServeDoor | None = None
    http: HttpDoor | None = None

    @property
    def stepping(self) -> list[str]:
        """The names of the doors for the levels plan and schedule that are there."""
        found = {
            "inprocess": self.inprocess,
            "process": self.process is not None,
            "scheduler-cls": self.scheduler_cls is not None,
        }
        return [name for name, is_there in found.items() if is_there]

    @property
    def serving(self) -> list[str]:
        found = {"serve": self.serve, "http": self.http}
        return [name for name, door in found.items() if door is not None]
