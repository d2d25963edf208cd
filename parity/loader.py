"""A scenario file becomes cases: every default filled in, every length expanded, every fault named.

A fault is one line with file, line and key, and it is found before anything runs. The path decides
the id: `<scenarios>/<family>/<file>.yaml` is `<family>/<file>`, and a sweep adds one more part.
"""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path, PurePosixPath

from parity.decode import decode
from parity.defaults import build_config, build_server_config, smallest_block_bytes
from parity.document import Fault, Mapping, Scalar, dotted, line_at, nearest, parse
from parity.errors import ScenarioError
from parity.form import CommonForm, ScenarioForm
from parity.levels import FAMILIES, PROPERTIES
from parity.models import model
from parity.scenario import MAX_BLOCKS, AnyScenario, Case, Level, Scenario, ServeScenario, Waiver
from parity.script import build_script
from parity.serve.models import served_model
from parity.serve_form import ServeForm
from parity.subjects.capabilities import OF_LEVELS
from parity.sweep import Expanded, expand
from parity.timeline import build_timeline

_KEYS_OF_LEVELS: tuple[tuple[tuple[Level, ...], tuple[str, ...]], ...] = (
    (("schedule",), ("requests", "aborts", "resets", "max_steps")),
    (("serve",), ("script", "fresh")),
)
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


def load_file(path: Path, root: Path) -> list[Case]:
    """The cases of one file below the project's root. Raises ScenarioError."""
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(shown, f"cannot be read: {error.strerror}") from None
    return load(data, shown)


def load(data: bytes, path: str) -> list[Case]:
    """The cases of a file's bytes; `path` is shown in errors and ends in `<family>/<file>.yaml`.

    A file without `sweep` is one case, a sweep one case a point. Raises ScenarioError.
    """
    name = _name(path)
    tree: Mapping | None = None
    try:
        tree = parse(data)
        points = expand(tree)
    except Fault as fault:
        raise _error(path, tree, fault) from None
    return [_case(point, name, path) for point in points]


def _name(path: str) -> str:
    file = PurePosixPath(path)
    family = file.parent.name
    if family not in FAMILIES:
        raise ScenarioError(path, f"the folder {family!r} is no family", hint=nearest(family, FAMILIES))
    if file.suffix != ".yaml" or not _SLUG.match(file.stem):
        raise ScenarioError(path, "a scenario's file is named in a-z, 0-9 and -, and ends in .yaml")
    return f"{family}/{file.stem}"


def _case(point: Expanded, name: str, path: str) -> Case:
    try:
        form = form_of(point.tree)
        return case_of(
            form, name if point.suffix is None else f"{name}/{point.suffix}", path, point.tree.line
        )
    except Fault as fault:
        raise _error(path, point.tree, fault, point) from None


def case_of(form: ScenarioForm | ServeForm, id_: str, path: str, line: int) -> Case:
    """The case of one form, its sweep resolved; `path` and `line` are where people find it. Raises Fault."""
    _check(form, form.level)
    return Case(
        scenario=_scenario(form, id_),
        title=form.title,
        why=form.why,
        waive=[Waiver(property=waiver.property, reason=waiver.reason) for waiver in form.waive],
        outcomes=form.outcomes,
        path=path,
        line=line,
        full=form.full,
        needs=tuple(form.needs),
        since=form.since,
    )


def form_of(tree: Mapping) -> ScenarioForm | ServeForm:
    """The file's form, which its level decides; a key that only another level has says so. Raises Fault."""
    node = tree.items.get("level")
    level = node.value if isinstance(node, Scalar) else None
    if isinstance(level, str):
        refuse_foreign(level, tree.items)
    return decode(tree, ServeForm) if level == "serve" else decode(tree, ScenarioForm)


def refuse_foreign(level: str, keys: Container[str]) -> None:
    """Raises Fault for a level that there is none of, and for a key that only another level has."""
    if level not in PROPERTIES:
        raise Fault(f"{level!r} is not a choice here", ("level",), hint=nearest(level, PROPERTIES))
    for owners, names in _KEYS_OF_LEVELS:
        foreign = [key for key in names if key in keys and level not in owners]
        if foreign:
            lacks = "runs nothing, so it has no" if level == "plan" else "has no"
            hint = f"use level: {owners[0]}"
            raise Fault(f"level {level} {lacks} {foreign[0]}", (foreign[0],), hint=hint)


def _scenario(form: ScenarioForm | ServeForm, id_: str) -> AnyScenario:
    return _served(form, id_) if isinstance(form, ServeForm) else _driven(form, id_)


def _served(form: ServeForm, id_: str) -> ServeScenario:
    try:
        served = served_model(form.config.model)
    except Fault as fault:
        raise Fault(fault.message, ("config", "model"), hint=fault.hint) from None
    script = build_script(form.script, form.config.model, served)
    config = build_server_config(form.config)
    return ServeScenario(id=id_, level="serve", config=config, script=script, fresh=form.fresh)


def _driven(form: ScenarioForm, id_: str) -> Scenario:
    try:
        shape = model(form.config.model)
    except Fault as fault:
        raise Fault(fault.message, ("config", "model"), hint=fault.hint) from None
    most = form.config.kv_cache_memory_bytes // smallest_block_bytes(shape, form.config.block_size)
    if form.config.num_blocks is None and most > MAX_BLOCKS:
        raise Fault(
            f"{form.config.kv_cache_memory_bytes} bytes make up to {most} blocks of this model",
            ("config", "kv_cache_memory_bytes"),
            hint=f"a scenario has at most {MAX_BLOCKS} blocks",
        )
    timeline = None if form.level == "plan" else build_timeline(form, shape.vocab_size)
    return Scenario(id=id_, level=form.level, config=build_config(form.config, shape), timeline=timeline)


def _check(form: CommonForm, level: Level) -> None:
    """What the types cannot say: links, titles, waivers of the level's properties."""
    for index, link in enumerate(form.why):
        if not link.startswith("https://"):
            raise Fault(f"{link!r} is no link", ("why", index), hint="cite a page as https://…")
    if len(form.title.splitlines()) > 1:
        raise Fault("a title is one line", ("title",))
    for index, need in enumerate(form.needs):
        if need not in OF_LEVELS[level]:
            raise Fault(
                f"{need!r} is no capability of level {level}",
                ("needs", index),
                hint=nearest(need, OF_LEVELS[level]),
            )
    known = PROPERTIES[level]
    for index, waiver in enumerate(form.waive):
        if waiver.property not in known:
            raise Fault(
                f"level {level} has no property {waiver.property!r}",
                ("waive", index, "property"),
                hint=nearest(waiver.property, known),
            )


def _error(path: str, tree: Mapping | None, fault: Fault, point: Expanded | None = None) -> ScenarioError:
    if point is None or not point.point:
        return fault_in(path, tree, fault)
    values = ", ".join(f"{name}={value}" for name, value in point.point.items())
    return fault_in(path, tree, fault, f" (at {values})")


def fault_in(path: str, tree: Mapping | None, fault: Fault, where: str = "") -> ScenarioError:
    """The fault as an error of that file: one line that names the line and the key."""
    place = dotted(fault.keys)
    message = f"{place}: {fault.message}" if place else fault.message
    line = fault.line if fault.line is not None or tree is None else line_at(tree, fault.keys)
    return ScenarioError(path, (message + where).replace("\n", " "), line=line, hint=fault.hint)
