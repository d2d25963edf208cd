"""Elements of float32 or bfloat16 inside a kernel: reading, writing, and the exponential, all in float32.

bfloat16 is what NumPy has no name for; its bits are the upper half of a float32's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from engine.kernels.team import exact

LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts, the first one short enough that its products with small integers are exact.
LN_2_HIGH, LN_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
LOWEST = np.float32(-87.0)  # below it the exponential leaves what a float32 can hold at full precision


def wide(value: Any) -> Any:
    """A stored element as float32."""
    raise TypeError("only inside a kernel: numba puts the implementation below in its place")


def narrow(value: Any, like: Any) -> Any:
    """A float32 as it is stored among elements such as `like`, rounded to nearest, ties to even."""
    raise TypeError("only inside a kernel: numba puts the implementation below in its place")


@overload(wide)
def _wide(value: Any) -> Any:
    def widened(value: Any) -> Any:
        return np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)

    def itself(value: Any) -> Any:
        return value

    return widened if value == types.uint16 else itself


@overload(narrow)
def _narrow(value: Any, like: Any) -> Any:
    def rounded(value: Any, like: Any) -> Any:
        bits = np.float32(value).view(np.uint32)
        odd = (bits >> np.uint32(16)) & np.uint32(1)
        return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))

    def itself(value: Any, like: Any) -> Any:
        return np.float32(value)

    return rounded if like == types.uint16 else itself


@exact
def exponential(x: Any) -> Any:
    """e to the power of `x` (float32, at most 88), within 3 units in the last place; 0 from -87 down."""
    bounded = max(np.float32(x), LOWEST)
    whole = np.floor(bounded * LOG2_E + np.float32(0.5))
    r = (bounded - whole * LN_2_HIGH) - whole * LN_2_LOW
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1.0)
    scale = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)
    return p * scale if x > LOWEST else np.float32(0.0)
