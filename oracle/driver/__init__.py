"""The driver that runs inside the oracle environment: stdlib, msgspec and upstream only.

`python -m oracle.driver` answers the JSON lines of docs/protocol.md with what real upstream does. It
holds no logic of upstream's: it builds upstream's objects, calls them and reads their state.
"""
