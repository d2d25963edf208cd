"""The driver that runs inside the oracle environment: stdlib, msgspec and upstream only."""
