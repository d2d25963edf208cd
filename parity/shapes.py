"""What a step and a request looked like, without their numbers: the vocabulary of fingerprints.

Roles say what a request was in a step, events what happened in it. Both are small fixed words, so that
the same behaviour in another scenario, with other lengths and ids, reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parity.observation import PlanError, PlanOk, Schedule, Step

UNRECOGNISED = "unrecognised"


def events_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """The events of the steps together: preempt, resume, hit, evict, stall (nothing scheduled), in that order."""
    seen: set[str] = set()
    for step in steps:
        happened = {
            "preempt": bool(step.preempted),
            "resume": bool(step.resumed),
            "hit": any(tokens > 0 for _, tokens in step.cached),
            "evict": bool(step.evicted),
            "stall": not step.scheduled,
        }
        seen.update(name for name, is_so in happened.items() if is_so)
    return tuple(name for name in ("preempt", "resume", "hit", "evict", "stall") if name in seen)


def role_in(step: Step, request: str) -> str:
    """What `request` was in this step: new, resumed, preempted, running, waiting, or gone."""
    if request in step.new:
        return "new"
    if request in step.resumed:
        return "resumed"
    if request in step.preempted:
        return "preempted"
    if request in step.running:
        return "running"
    return "waiting" if request in step.waiting else "gone"


def ended_in(step: Step) -> set[str]:
    """The requests that the update of this step ended, or that were aborted before it."""
    return {entry[0] for entry in step.finished} | {entry[0] for entry in step.aborted_late}


def roles_left(observation: Schedule, window: Sequence[int]) -> tuple[str, ...]:
    """What the requests that were left at the end were during the window: never-admitted, preempted, running.

    `window` holds step indexes up to the last one. A waiting request counts as preempted if it ran before.
    """
    if not observation.steps:
        return ()
    last = observation.steps[-1]
    left = {*last.running, *last.waiting} - ended_in(last)
    admitted: set[str] = set()
    roles: set[str] = set()
    for index, step in enumerate(observation.steps):
        admitted.update(step.new, step.running)
        if index not in window:
            continue
        roles.update("running" for request in step.running if request in left)
        for request in step.waiting:
            if request in left:
                roles.add("preempted" if request in admitted else "never-admitted")
    return tuple(sorted(roles))


def plan_event(plan: PlanOk | PlanError) -> str:
    """`plan:ok`, or `plan:` and the error's kind; of an error that no rule knows only that it is one."""
    if isinstance(plan, PlanOk):
        return "plan:ok"
    kind = plan.kind.split(":", 1)[0].strip()
    return f"plan:{UNRECOGNISED if kind == UNRECOGNISED else kind}"


def plan_of(observation: PlanOk | PlanError | Schedule) -> PlanOk | PlanError:
    return observation.plan if isinstance(observation, Schedule) else observation
