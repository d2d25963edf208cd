"""Run by Python at its start where PYTHONPATH leads here: plants the mutants that the environment names.

The package is found by this file's place, and forgotten again: the process may be one of another checkout.
"""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[3])
_BEFORE = set(sys.modules)
sys.path.insert(0, _ROOT)
try:
    from parity.detection.planted import plant_named
finally:
    sys.path.remove(_ROOT)
plant_named()
for _name in set(sys.modules) - _BEFORE:
    if _name.partition(".")[0] == "parity":
        del sys.modules[_name]
