"""What of a hunt its parts do not have: shards nobody did, and units that the others left out."""

from __future__ import annotations

import pytest

from parity.fuzz.joining import Part, Shard, join
from parity.fuzz.log import Log
from tests.parity.fuzz.test_log import header
from tests.parity.fuzz.test_tally import done


def log(shard: Shard, *units: int) -> Log:
    return Log(header(shard=shard), tuple(done(index) for index in units), ())


@pytest.mark.parametrize(
    ("logs", "shards", "units"),
    [
        ([log((1, 1), 0, 1, 2)], (), ()),
        ([log((1, 1), 0, 3)], (), (1, 2)),
        ([log((1, 2), 0, 2), log((2, 2), 1)], (), ()),
        ([log((1, 2), 0, 2, 4), log((2, 2), 1)], (), (3,)),
        ([log((2, 3), 1, 7)], ((1, 3), (3, 3)), (4,)),
        ([log((1, 2), 0, 2, 4), log((2, 4), 1), log((4, 4), 3)], (), ()),
        ([log((1, 2), 0, 4), log((2, 4), 1)], (), (2, 3)),
        ([log((1, 2)), log((2, 2))], (), ()),
    ],
)
def test_what_is_missing(logs: list[Log], shards: tuple[Shard, ...], units: tuple[int, ...]) -> None:
    joined = join(logs)

    assert (joined.missing_shards, joined.missing_units) == (shards, units)


def test_hunts_of_one_shard_are_one_part() -> None:
    joined = join([log((2, 2), 3), log((1, 2), 0), log((2, 2), 1, 3)])

    assert joined.parts == (Part((1, 2), (0,)), Part((2, 2), (1, 3)))
    assert joined.last == 3
