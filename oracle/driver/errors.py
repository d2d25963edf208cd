"""The driver's exceptions, by whose fault a thing is.

Fault
├── BadRequest      the line that was read is no request of the protocol; answered, and the process goes on
└── DriverError     the driver could not do its own work (a setting that did not stand, a state it cannot read)
UpstreamRaised      upstream's own code raised; `cause` is what it raised, and that is an observation
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager


class Fault(Exception):
    """Base of what is answered as `{"error": {"kind", "message"}}`."""

    kind = "driver"


class BadRequest(Fault):
    kind = "bad-request"


class DriverError(Fault):
    kind = "driver"


class UpstreamRaised(Exception):
    """Upstream's own code raised `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def upstream_code() -> Iterator[None]:
    """Marks calls of upstream: what they raise comes out as UpstreamRaised, a Fault of ours as it is."""
    try:
        yield
    except (Fault, UpstreamRaised):
        raise
    except Exception as error:
        raise UpstreamRaised(error) from error


@contextmanager
def driver_code() -> Iterator[None]:
    """Marks code of ours that upstream calls: what it raises is never taken for something that upstream raised."""
    try:
        yield
    except (Fault, UpstreamRaised):
        raise
    except Exception as error:
        traceback.print_exc()
        raise DriverError(f"{type(error).__name__}: {error}") from error
