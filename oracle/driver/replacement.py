"""A class in the place of upstream's scheduler: loaded as upstream loads it, and blamed by name for what it lacks.

Whoever reads a fault must see at once that it is the class that is at fault, and neither upstream nor an engine behind it.
What the class does in a scenario, raising included, is an observation and none of this.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import vllm
from vllm.config import SchedulerConfig

from oracle.driver.errors import DriverError, Fault

# Frames of these say where a class is loaded and called from, and not where it went wrong.
_AROUND = tuple(Path(str(file)).parent for file in (__file__, vllm.__file__, importlib.__file__))


@contextmanager
def blamed(name: str | None) -> Iterator[None]:
    """Around what is done with the class `name`: whatever the driver cannot do there names it. With None, nothing."""
    try:
        yield
    except Fault as fault:
        if name is None:
            raise
        raise DriverError(f"scheduler class {name}: {fault}") from fault
    except Exception as error:
        if name is None:
            raise
        raise DriverError(f"scheduler class {name}: the driver cannot follow it: {told(error)}") from error


def load(scheduler_config: SchedulerConfig) -> type:
    """The class that upstream's own setting leads to. Raises DriverError where there is none."""
    try:
        found = scheduler_config.get_scheduler_cls()
    except Exception as error:
        raise DriverError(f"it cannot be loaded: {told(error)}") from error
    if not isinstance(found, type):
        raise DriverError(f"it is no class, its type is {type(found).__name__}")
    return found


def qualified_name(class_: type) -> str:
    return f"{class_.__module__}.{class_.__qualname__}"


def told(error: Exception) -> str:
    """An exception in a line: its class, its message's first line, and the last place that is neither ours nor upstream's."""
    message = str(error).strip().partition("\n")[0]
    said = f"{type(error).__name__}: {message}" if message else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if _is_theirs(frame.filename)]
    return f"{said} ({Path(places[-1].filename).name}:{places[-1].lineno})" if places else said


def _is_theirs(filename: str) -> bool:
    return not filename.startswith("<") and not any(
        Path(filename).is_relative_to(folder) for folder in _AROUND
    )
