"""The JSON Schemas of what people write and of what goes over the wire, generated from the types.

They are committed, for editors and for authors of foreign engines, and `parity schema --check` (and a
test) refuses a copy that is not what the types say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from parity.errors import UsageError
from parity.form import ScenarioFile
from parity.observation import PlanError, PlanOk, Schedule, Serve
from parity.protocol import Failed, Greeted, PlanEnded, Run, ScheduleEnded, Stepped
from parity.scenario import Scenario, ServeScenario
from parity.serve_form import ServeFile

FOLDER = "parity/schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TEMPLATE = {"type": "string", "pattern": r"\$\{[^{}]*\}"}
_TITLES = {
    "scenario.json": "A scenario on the wire, as both sides receive it",
    "serve-scenario.json": "A scenario of level serve, explicit: a server's configuration and a script",
    "observation.json": "An observation: a plan that came out, a refusal, a schedule with its plan, or a served script",
    "scenario-file.json": "A scenario file as people write it (YAML)",
    "protocol-hello.json": "The line that answers hello",
    "protocol-run.json": "The line that asks for a scenario",
    "protocol-step.json": "A step's line; fields that the subject's `observes` leaves out may be missing",
    "protocol-end.json": "The line that ends an answer; fields that the subject's `observes` leaves out may be missing",
    "protocol-error.json": "The line in the place of an answer that the adapter cannot give",
}


def documents() -> dict[str, str]:
    """The text of each schema by its file name."""
    bodies = {
        "scenario.json": _schema(Scenario),
        "serve-scenario.json": _schema(ServeScenario),
        "observation.json": _schema(PlanOk, PlanError, Schedule, Serve),
        "scenario-file.json": _with_templates(_schema(ScenarioFile, ServeFile)),
        "protocol-hello.json": _schema(Greeted),
        "protocol-run.json": _schema(Run),
        "protocol-step.json": _schema(Stepped),
        "protocol-end.json": _schema(PlanEnded, ScheduleEnded),
        "protocol-error.json": _schema(Failed),
    }
    return {name: _text(_TITLES[name], body) for name, body in bodies.items()}


def stale(root: Path) -> list[str]:
    """Names of the committed schemas that are missing, superfluous or not what the types say."""
    folder = root / FOLDER
    wanted = documents()
    present = {path.name for path in folder.glob("*.json")}
    wrong = [
        name
        for name, text in wanted.items()
        if name not in present or (folder / name).read_bytes() != text.encode()
    ]
    return sorted({*wrong, *(present - wanted.keys())})


def write(root: Path) -> list[str]:
    """Make the committed schemas fresh; the names of those that changed. Raises UsageError if it cannot."""
    folder = root / FOLDER
    wanted = documents()
    changed = stale(root)
    try:
        folder.mkdir(exist_ok=True)
        for name in changed:
            if name in wanted:
                (folder / name).write_bytes(wanted[name].encode())
            else:
                (folder / name).unlink()
    except OSError as error:
        raise UsageError(f"{FOLDER} cannot be written: {error.strerror}") from None
    return changed


def _schema(*types: Any) -> dict[str, Any]:
    refs, components = msgspec.json.schema_components(types)
    top = dict(refs[0]) if len(refs) == 1 else {"oneOf": list(refs)}
    return {**top, "$defs": components}


def _text(title: str, body: dict[str, Any]) -> str:
    return json.dumps({"$schema": DIALECT, "title": title, **body}, indent=2, ensure_ascii=False) + "\n"


def _with_templates(body: dict[str, Any]) -> dict[str, Any]:
    """The schema with a template allowed for every value: a sweep fills it in before types are checked."""
    filled: dict[str, Any] = _open(body)
    return filled


def _open(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_open(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in ("integer", "number", "boolean") or "enum" in schema:
        kept = {key: value for key, value in schema.items() if key != "default"}
        default = {"default": schema["default"]} if "default" in schema else {}
        return {"anyOf": [kept, dict(_TEMPLATE)], **default}
    return {key: _open(value) for key, value in schema.items()}
