"""Maps and lists that YAML writes on one line, in braces and brackets, wherever they stand."""

from __future__ import annotations

import yaml

from parity.scenario import Json


class FlowMap(dict[str, Json]):
    """An object that is written in braces, on one line."""


class FlowList(list[Json]):
    """A list that is written in brackets, on one line."""


def add_flow_style(dumper: type[yaml.SafeDumper]) -> None:
    """Teach a dumper to write both."""
    dumper.add_representer(
        FlowMap,
        lambda own, data: own.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=True),
    )
    dumper.add_representer(
        FlowList,
        lambda own, data: own.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True),
    )
