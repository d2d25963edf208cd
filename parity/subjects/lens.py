"""What can be seen of a subject, laid over both sides alike before anything is compared.

Fields that the subject does not show are blank on both sides, so no verdict is told more than was compared; a
property that needs one of them is not judged, on either side. The profile then takes away what the subject does
not promise: `renamed` the names of blocks, `counts` all but their number, `aggregate` the single steps and frames.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from parity.finding import Plays
from parity.observation import Answer, End, Observation, PlanError, PlanOk, Schedule, Serve, Step
from parity.scenario import Level, Waiver
from parity.subjects import profiles
from parity.subjects.blank import blank
from parity.subjects.fields import Observes, unobserved

# What a property is judged on, by the names of `parity.subjects.fields`.
_RESTS_ON: dict[str, tuple[str, ...]] = {
    "serves-advertised-length": ("status", "max_model_len", "usable_blocks"),
    "label-within-usable": ("status", "kv_cache_size_tokens", "usable_blocks"),
    "terminates": ("end.kind", "end.outputs"),
    "no-block-leak": (
        *("plan.status", "plan.usable_blocks", "steps.aborted_late", "steps.blocks", "steps.free"),
        *("steps.finished", "steps.free_after"),
    ),
    "answers": ("exchanges.ending", "exchanges.status"),
    "exits-on-signal": ("ended",),
    "health-tells-the-truth": ("health",),
    "stream-is-well-formed": ("exchanges.ending", "exchanges.status", "exchanges.stream"),
    "usage-adds-up": ("exchanges.ending", "exchanges.status", "exchanges.body", "exchanges.stream"),
    "frees-after-disconnect": ("after",),
}
_OF_LEVEL: dict[Level, tuple[str, ...]] = {
    "plan": tuple(_RESTS_ON)[:2],
    "schedule": tuple(_RESTS_ON)[2:4],
    "serve": tuple(_RESTS_ON)[4:],
}


Part = TypeVar("Part", bound=msgspec.Struct)


class Lens(msgspec.Struct, frozen=True):
    """The sight of one subject at one level. `hidden` are the fields that are not seen."""

    level: Level
    profile: str
    hidden: frozenset[str]

    @property
    def is_clear(self) -> bool:
        return not self.hidden and profiles.is_exact(self.profile, self.level)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """The properties that rest on something that is not seen."""
        gone = self.hidden | profiles.taken(self.profile, self.level)
        return tuple(name for name in _OF_LEVEL[self.level] if gone.intersection(_RESTS_ON[name]))

    def waivers(self) -> list[Waiver]:
        return [Waiver(name, "rests on what the subject does not show") for name in self.unjudged]

    def plays(self, plays: Plays) -> Plays:
        """The plays as they are compared."""
        if self.is_clear:
            return plays
        seen = tuple(self.observation(item) for item in plays.observations)
        return msgspec.structs.replace(plays, observations=seen)

    def observation(self, observation: Observation) -> Observation:
        if self.hidden:
            observation = self._blanked(observation)
        return profiles.apply(self.profile, observation)

    def complete(self, raw: Any) -> Any:
        """A subject's plain observation with blanks where it leaves out what it does not show.

        A field that it claims to show is not filled in: its absence is for whoever decodes.
        """
        if not self.hidden or not isinstance(raw, dict):
            return raw
        if self.level == "plan":
            return self._filled_plan(raw, "")
        if self.level == "serve":
            return self._filled(Serve, self._each(Answer, raw, "exchanges"), "")
        whole = self._each(Step, raw, "steps")
        return whole | {
            "plan": self._filled_plan(raw.get("plan"), "plan."),
            "end": self._filled(End, raw.get("end"), "end."),
        }

    def shown(self, plain: dict[str, Any]) -> dict[str, Any]:
        """A compared observation as plain JSON, without the blanks."""
        if not self.hidden:
            return plain
        if self.level == "plan":
            return self._without(plain, "")
        if self.level == "serve":
            whole = self._without(plain, "")
            return whole | {"exchanges": [self._without(item, "exchanges.") for item in plain["exchanges"]]}
        return {
            "plan": self._without(plain["plan"], "plan."),
            "steps": [self._without(step, "steps.") for step in plain["steps"]],
            "end": self._without(plain["end"], "end."),
        }

    def unobserved(self, observation: Observation) -> int:
        """How many values of an observation were not compared because they are not seen."""
        if isinstance(observation, Schedule):
            of_steps = len(self._fields(Step, "steps.")) * len(observation.steps)
            return self._unseen_of_plan(observation.plan, "plan.") + of_steps + len(self._fields(End, "end."))
        if isinstance(observation, Serve):
            of_answers = len(self._fields(Answer, "exchanges.")) * len(observation.exchanges)
            return of_answers + len(self._fields(Serve, ""))
        return self._unseen_of_plan(observation, "")

    def _unseen_of_plan(self, plan: PlanOk | PlanError, prefix: str) -> int:
        return len(self._fields(type(plan), prefix)) + (f"{prefix}status" in self.hidden)

    def _blanked(self, observation: Observation) -> Observation:
        if isinstance(observation, Schedule):
            return Schedule(
                plan=self._blank_plan(observation.plan, "plan."),
                steps=[self._blank(step, "steps.") for step in observation.steps],
                end=self._blank(observation.end, "end."),
            )
        if isinstance(observation, Serve):
            answers = [self._blank(answer, "exchanges.") for answer in observation.exchanges]
            return msgspec.structs.replace(self._blank(observation, ""), exchanges=answers)
        return self._blank_plan(observation, "")

    def _blank_plan(self, plan: PlanOk | PlanError, prefix: str) -> PlanOk | PlanError:
        if f"{prefix}status" in self.hidden:
            return PlanOk(**{field: blank(PlanOk, field) for field in PlanOk.__struct_fields__})
        return self._blank(plan, prefix)

    def _blank(self, part: Part, prefix: str) -> Part:
        fields = self._fields(type(part), prefix)
        return msgspec.structs.replace(part, **{field: blank(type(part), field) for field in fields})

    def _filled_plan(self, raw: Any, prefix: str) -> Any:
        if f"{prefix}status" in self.hidden:
            raw = {"status": "ok"}
        elif not isinstance(raw, dict):
            return raw
        return self._filled(PlanError if raw.get("status") == "error" else PlanOk, raw, prefix)

    def _each(self, struct: type[msgspec.Struct], raw: dict[str, Any], field: str) -> dict[str, Any]:
        """`raw` with each of its parts in `field` filled in, where that is a list."""
        parts = raw.get(field)
        if not isinstance(parts, list):
            return raw
        return raw | {field: [self._filled(struct, part, f"{field}.") for part in parts]}

    def _filled(self, struct: type[msgspec.Struct], raw: Any, prefix: str) -> Any:
        if not isinstance(raw, dict):
            return raw
        return {field: blank(struct, field) for field in self._fields(struct, prefix)} | raw

    def _fields(self, struct: type[msgspec.Struct], prefix: str) -> list[str]:
        return [field for field in struct.__struct_fields__ if f"{prefix}{field}" in self.hidden]

    def _without(self, plain: dict[str, Any], prefix: str) -> dict[str, Any]:
        return {key: value for key, value in plain.items() if f"{prefix}{key}" not in self.hidden}


def lens_over(observes: Observes, profile: str, level: Level) -> Lens:
    """The lens over both sides at `level` where that is observed, and compared in that profile."""
    return Lens(level, profile, frozenset(unobserved(observes, level)))


def both(first: Lens, second: Lens) -> Lens:
    """Two lenses of one level laid over each other: what either hides is hidden, and the coarser profile counts."""
    profile = max(first.profile, second.profile, key=profiles.PROFILES.index)
    return Lens(first.level, profile, first.hidden | second.hidden)
