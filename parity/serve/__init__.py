"""The `serve` level: servers started and ended, scripts played against them, and what came back in canonical form."""
