"""A finding's shape in words: the title that a promoted scenario begins with, its family, and its file's name."""

from __future__ import annotations

import re

import msgspec

from parity.fuzz.document import TITLE, Document

_FIELDS = {
    "scheduled": "what is scheduled",
    "new": "who is new",
    "resumed": "who resumes",
    "preempted": "who is preempted",
    "cached": "tokens found in the cache",
    "evicted": "evicted blocks",
    "blocks": "block tables",
    "free": "free blocks after scheduling",
    "free_after": "free blocks after the update",
    "running": "the running queue",
    "waiting": "the waiting queue",
    "aborted": "what an abort gives back",
    "aborted_late": "what a late abort gives back",
    "reset": "what a reset of the cache says",
    "finished": "who ends, and why",
    "steps": "how many steps there are",
    "end": "how it ends",
    "warnings": "warnings at start-up",
    "kind": "the kind of the refusal",
    "status": "whether start-up works",
    "estimated_max_model_len": "the length that a refusal advises",
    "bytes_per_block": "bytes of a block",
    "num_blocks": "the number of blocks",
    "usable_blocks": "usable blocks",
    "max_model_len": "the length that is advertised",
    "kv_cache_size_tokens": "tokens that the cache is said to hold",
    "concurrency": "the concurrency",
    "concurrency_label": "the concurrency that is logged",
    "exchanges": "an answer",
    "health": "what /health says",
    "after": "what is left at the end",
    "ended": "how the process ends",
    "conditions": "whether a wait comes true",
}
_KINDS = {
    "greater": "greater than in upstream",
    "less": "less than in upstream",
    "longer": "longer than in upstream",
    "shorter": "shorter than in upstream",
    "missing": "missing",
    "extra": "there and not in upstream",
    "type": "of another type than in upstream",
    "differs": "other than in upstream",
}
_EVENTS = {
    "preempt": "a request is preempted",
    "resume": "a request resumes",
    "hit": "the cache is hit",
    "evict": "a cached block is evicted",
    "stall": "nothing is scheduled",
    "disconnect": "a client leaves",
    "signal": "a signal is sent",
}
_CHUNKED = ("max_num_batched_tokens", "long_prefill_token_threshold", "enable_chunked_prefill")
_AUTO = ("max_model_len", "estimated_max_model_len")


class Words(msgspec.Struct, frozen=True):
    """A shape's components, as `parity.fingerprint` joins them; a line that is no shape has a path alone."""

    path: str
    event: str = "-"
    kind: str = "differs"
    role: str = "-"
    events: tuple[str, ...] = ()
    broken: str = "-"
    attribution: str = "-"

    @property
    def field(self) -> str:
        """The observation's field that the path leads to: `free_after` of `steps[*].free_after`."""
        names = [name for name in re.findall(r"[a-z_]+", self.path) if name not in ("steps", "plan")]
        return names[0] if names else re.sub(r"[^a-z_].*", "", self.path) or "end"


def is_shape(line: str) -> bool:
    """Whether the line is a shape, and not how a side failed."""
    return line.count("|") == 7


def words_of(shape: str) -> Words:
    """The components of a shape's line."""
    parts = shape.split("|")
    if not is_shape(shape):
        return Words(path="end")
    _, attribution, event, path, kind, role, events, broken = parts
    either = dict.fromkeys(name for name in re.split(r"[+/]", events) if name != "-")
    return Words(path, event, kind, role, tuple(either), broken, attribution)


def title_of(shape: str) -> str:
    """A title to begin with: what differs or is broken, how, and when."""
    if not is_shape(shape):
        return f"{TITLE}: {' '.join(shape.split())}"
    words = words_of(shape)
    what = _FIELDS.get(words.field, words.field.replace("_", " "))
    if words.attribution == "mirrored":
        said = f"both sides break {words.broken}, seen in {what}"
    else:
        said = f"a difference in {what} ({_KINDS.get(words.kind, _KINDS['differs'])})"
        said += f", of a request that is {_role(words.role)}" if words.role != "-" else ""
        said += f", and {words.broken} is broken" if words.broken != "-" else ""
    when = [_EVENTS[name] for name in words.events if name in _EVENTS]
    if when:
        said += f", when {' and '.join(when)}"
    return f"{TITLE}: {said}"


def _role(role: str) -> str:
    """What the request was; where the sides do not agree, what on which."""
    oracle, mark, subject = role.partition("/")
    return f"{oracle} in upstream and {subject} here" if mark else oracle


def family_of(shape: str, document: Document) -> str:
    """The family of the suite that the scenario most likely belongs to."""
    words = words_of(shape)
    level, config = document["level"], document["config"]
    if level == "serve":
        if "signal" in words.events or words.field == "ended" or "signal" in words.broken:
            return "shutdown"
        return "numerics" if "logprob" in words.path else "serving"
    if level == "plan" or words.path.startswith("plan"):
        is_fitted = config.get("max_model_len", "auto") == "auto"
        return (
            "auto-fit" if is_fitted and (words.field in _AUTO or "auto-fit" in words.event) else "block-count"
        )
    seen = {*words.events, words.field, *re.split(r"[+/]", words.role)}
    if seen & {"preempt", "resume", "preempted", "resumed"}:
        return "preemption"
    if seen & {"hit", "evict", "cached", "evicted", "reset"}:
        return "caching"
    return "chunking" if any(key in config for key in _CHUNKED) else "admission"


def slug_of(shape: str, fingerprint: str) -> str:
    """A file's name: the field, how it differs, the events, and enough of the fingerprint to tell it from its like."""
    if not is_shape(shape):
        return fingerprint.replace(":", "-")
    words = words_of(shape)
    broken = words.broken.replace(",", "-") if words.broken != "-" else ""
    parts = [words.field, words.kind if words.attribution != "mirrored" else "", broken, *words.events]
    text = "-".join([*(part for part in parts if part), fingerprint.partition(":")[2][:6]])
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
