"""Scripts of one line: what the tests of the serve level build their scenarios from."""

from __future__ import annotations

import json
from typing import Any

from parity.scenario import Action, Exchange, ServeScenario
from tests.parity.served import server_config

CONFIG = server_config(max_num_seqs=8)


def script(*actions: Action) -> ServeScenario:
    return ServeScenario(id="serving/test", level="serve", config=CONFIG, script=list(actions), fresh=False)


def exchange(
    id: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    deadline: float | None = None,
    leave_after: int | None = None,
    headers: dict[str, str] | None = None,
) -> Exchange:
    """POST of a JSON body where there is one, else GET."""
    return Exchange(
        id=id,
        method="GET" if body is None else "POST",
        path=path,
        headers=headers
        if headers is not None
        else {}
        if body is None
        else {"content-type": "application/json"},
        content=None if body is None else json.dumps(body),
        deadline=deadline,
        leave_after=leave_after,
    )
