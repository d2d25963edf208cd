"""How a server is started, as data: a TOML file with its command, its environment, when it is ready, and its flags.

So that anyone's server can stand on either side: the oracle's is `launchers/vllm.toml`, a subject's is its door `serve`
(`parity.subjects.doors`), and no server needs code. A flag is a list of arguments in which `{}` stands for the value, a flag's
name alone (the value follows it), or a table from a value to such a list, `*` being any other value. A null value gives no argument.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from parity.defaults import ServerConfigForm, config_defaults
from parity.errors import UsageError
from parity.scenario import ServerConfig

FOLDER = Path(__file__).resolve().parent / "launchers"
PLACEHOLDERS = ("python", "model", "name", "host", "port")
NEEDED = ("model", "port")  # without them the server would not be the one that was asked for
_PLACEHOLDER = re.compile("{(" + "|".join(PLACEHOLDERS) + ")}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")  # it stands in messages and in run files
_PATH = re.compile(r"/(?!/)[!-~]{0,200}|/")
OTHERWISE = "*"
VALUE = "{}"
DEFAULTS = config_defaults(ServerConfigForm)

Arguments = list[str]
Flag = str | Arguments | dict[str, Arguments]


class Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The path that answers 200 once the server serves, and the seconds that it has until its first completion."""

    path: str
    seconds: Annotated[float, Meta(gt=0.0, le=3600.0)]


class Launcher(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one server is started. `environment` is laid over what its side gives it.

    `policy` takes one of the engine's choices, NAME=VALUE; null where a server has none.
    """

    name: str
    command: Annotated[Arguments, Meta(min_length=1)]
    ready: Ready
    flags: dict[str, Flag] = {}
    environment: dict[str, str] = {}
    policy: Arguments | None = None

    def under(self, policies: Sequence[str]) -> Launcher:
        """The launcher with these choices in its command. Raises UsageError where it cannot be asked for any."""
        if not policies:
            return self
        if self.policy is None:
            raise UsageError(
                f"launcher {self.name} has no flag for a policy",
                hint="add policy to it, or leave --policy out",
            )
        chosen = [part.replace(VALUE, choice) for choice in policies for part in self.policy]
        return msgspec.structs.replace(self, command=[*self.command, *chosen])


def shipped(name: str) -> Path:
    """The file of a launcher that comes with the project: `vllm`."""
    return FOLDER / f"{name}.toml"


def load_launcher(path: Path) -> Launcher:
    """Read a launcher. Raises UsageError that names the file and what is wrong in it."""
    try:
        launcher = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Launcher)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a launcher's TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}", hint=f"{shipped('vllm')} shows the form") from None
    for fault, hint in faults(launcher):
        raise UsageError(f"{path}: {fault}", hint=hint)
    return launcher


def faults(launcher: Launcher) -> Iterator[tuple[str, str]]:
    """What no server could be started or asked with, each with what to do about it."""
    if not _NAME.fullmatch(launcher.name):
        yield f"name {launcher.name!r} is no name", "up to 40 letters, digits, dots, dashes and underscores"
    if not _PATH.fullmatch(launcher.ready.path):
        yield (
            f"ready: path {launcher.ready.path!r} is no path",
            "begin it with one /, in plain ASCII without spaces",
        )
    yield from unusable(launcher.environment, _texts(launcher))
    missing = [name for name in NEEDED if not any(f"{{{name}}}" in part for part in launcher.command)]
    if missing:
        yield f"command has no {{{missing[0]}}}", "the harness chooses it"
    unknown = sorted(set(launcher.flags) - _keys())
    if unknown:
        yield f"flags: no configuration has {unknown[0]}", f"it has {', '.join(sorted(_keys()))}"


def unusable(
    environment: Iterable[str], texts: Iterable[tuple[str, Iterable[str]]]
) -> Iterator[tuple[str, str]]:
    """What no process could be started with: names of variables, and texts, each with its place."""
    for variable in environment:
        if not variable or "=" in variable:
            yield f"environment: {variable!r} is no variable's name", "leave it out, or name one without ="
    for where, parts in texts:
        if any("\0" in part for part in parts):
            yield f"{where}: a text has a NUL in it", "no command line, path or environment can hold one"


def _texts(launcher: Launcher) -> Iterator[tuple[str, Iterable[str]]]:
    """All that becomes a part of a command line or an environment, with its place."""
    yield "command", launcher.command
    yield "policy", launcher.policy or ()
    yield "environment", [*launcher.environment, *launcher.environment.values()]
    for key, flag in launcher.flags.items():
        lists = flag.values() if isinstance(flag, dict) else [[flag] if isinstance(flag, str) else flag]
        yield f"flags: {key}", [text for arguments in lists for text in arguments]


def command(
    launcher: Launcher,
    config: ServerConfig,
    *,
    python: str,
    model: Path,
    host: str,
    port: int,
    generation_config: Path | None,
) -> list[str]:
    """The command line that starts a server of `config`, whose generation config stands in that folder.

    Raises UsageError for a value that is not the default and that the launcher has no flag for.
    """
    given = dict(zip(PLACEHOLDERS, (python, str(model), config.model, host, str(port)), strict=True))
    arguments = [_filled(part, given) for part in launcher.command]
    values: dict[str, Any] = msgspec.structs.asdict(config) | {
        "generation_config": None if generation_config is None else str(generation_config)
    }
    for key, value in _given(values):
        flag = _flag(launcher, key, value)
        if flag is None:
            raise UsageError(
                f"launcher {launcher.name} has no flag for {key} = {_text(value)}",
                hint="add it to the launcher's [flags], or leave the key out of the scenario",
            )
        arguments += flag
    return arguments


def unflagged(launcher: Launcher, config: ServerConfig) -> list[str]:
    """The keys of which `command` could not ask for the value."""
    return [
        key for key, value in _given(msgspec.structs.asdict(config)) if _flag(launcher, key, value) is None
    ]


def _given(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a flag has to say, in the configuration's order."""
    for key in ServerConfig.__struct_fields__:
        if key in _keys() and values[key] is not None:
            yield key, values[key]


def _keys() -> set[str]:
    """The keys that are flags: all but the model, whose place is in the command."""
    return set(ServerConfig.__struct_fields__) - {"model"}


def _filled(part: str, given: dict[str, str]) -> str:
    """Only the five names are placeholders: any other brace is the command's own."""
    return _PLACEHOLDER.sub(lambda found: given[found[1]], part)


def _flag(launcher: Launcher, key: str, value: Any) -> Arguments | None:
    """The arguments for a value: none for the default of a key without a flag, null where it cannot be asked for."""
    flag = launcher.flags.get(key)
    text = _text(value)
    if isinstance(flag, str):
        return [flag, text]
    if isinstance(flag, dict):
        flag = flag.get(text, flag.get(OTHERWISE))
    if flag is not None:
        return [part.replace(VALUE, text) for part in flag]
    return [] if key in DEFAULTS and value == DEFAULTS[key] else None


def _text(value: Any) -> str:
    """A value as it stands in a command line; booleans as TOML writes them, maps as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
