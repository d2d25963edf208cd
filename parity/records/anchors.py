"""Places in source that records cite: a symbol and a digest of it, so that a record notices when they move."""

from __future__ import annotations

import re
from pathlib import Path

from oracle.errors import OracleFault
from oracle.symbols import symbol_digest
from parity.records.record import Anchor
from parity.records.rules import Fault, Faults, Page, RecordRule

SYNTAX = re.compile(r"(engine|vllm)/[\w/]+\.py::[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

USUAL: dict[str, tuple[str, ...]] = {
    "plan": (
        "vllm/v1/core/kv_cache_utils.py::get_kv_cache_configs",
        "engine/capacity.py::plan",
    ),
    "schedule": (
        "vllm/v1/core/sched/scheduler.py::Scheduler.schedule",
        "engine/scheduler.py::Scheduler.schedule",
    ),
    "serve": (
        "vllm/entrypoints/openai/completion/serving.py::OpenAIServingCompletion.create_completion",
        "engine/server/completions.py::complete",
    ),
}
"""The places that a finding of each level usually speaks of: a draft's first guess."""


def anchor_syntax(page: Page) -> Faults:
    """An anchor is `engine/…py::symbol` or `vllm/…py::symbol`, with a digest, and never a line number."""
    for index, anchor in enumerate(page.front.anchors):
        line = page.line("anchors", index)
        if not SYNTAX.fullmatch(anchor.at):
            yield Fault(line, f"anchor {anchor.at!r} is not engine/….py::symbol or vllm/….py::symbol")
        elif anchor.digest is None:
            yield Fault(line, f"anchor {anchor.at} has no digest")


def anchor_moved(page: Page) -> Faults:
    """The cited source is still what it was when the record was written.

    Our own is always looked at, upstream's where it is at hand.
    """
    for index, anchor in enumerate(page.front.anchors):
        folder = folder_of(anchor, page.ground.root, page.ground.upstream)
        if folder is None or not SYNTAX.fullmatch(anchor.at) or anchor.digest is None:
            continue
        line = page.line("anchors", index)
        try:
            found = source_digest(folder, anchor)
        except LookupError as error:
            yield Fault(line, f"anchor {anchor.at}: {error.args[0]}")
            continue
        if found != anchor.digest:
            yield Fault(
                line, f"anchor {anchor.at} changed: read it, then `parity record refresh {page.record.id}`"
            )


ANCHOR_RULES: tuple[RecordRule, ...] = (anchor_syntax, anchor_moved)


def folder_of(anchor: Anchor, root: Path, upstream: Path | None) -> Path | None:
    """The folder that an anchor's path starts from; null where upstream's source is not at hand."""
    return upstream if anchor.is_upstreams else root


def source_digest(folder: Path, anchor: Anchor) -> str:
    """The digest of the anchor's symbol as its source is now. Raises LookupError: no such file, or no such symbol."""
    try:
        text = (folder / anchor.path).read_text(encoding="utf-8")
    except OSError:
        raise LookupError(f"there is no file {anchor.path}") from None
    try:
        return symbol_digest(text, anchor.symbol)
    except OracleFault as fault:
        raise LookupError(str(fault)) from None
