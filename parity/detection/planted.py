"""Puts mutants in force: their modules are loaded from memory, and no file of the source is written.

In this process with `plant`, after `purge` has made the modules be imported anew. In every Python process below it
through the environment: VARIABLE names the mutants, and PYTHONPATH leads to `site/`, whose `sitecustomize` plants them
before anything else is imported. Standard library only, as the oracle's environment loads it too.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from parity.detection.mutation import Mutant, find_mutant, module_of, source_of

VARIABLE = "NULLBLOCK_MUTANTS"  # ids, one a line
ROOT = Path(__file__).resolve().parents[2]
SITE = Path(__file__).resolve().parent / "site"


class _Loader(SourceFileLoader):
    """Loads a module of its usual name and file from another text, and keeps no compiled copy."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.get_filename(fullname), "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the planted modules before anybody else does."""

    def __init__(self, root: Path, sources: Mapping[str, tuple[str, str]]) -> None:
        self._root = root
        self._sources = dict(sources)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        found = self._sources.get(fullname)
        if found is None:
            return None
        file, source = found
        place = str(self._root / file)
        return spec_from_file_location(fullname, place, loader=_Loader(fullname, place, source))


def plant(mutants: Iterable[Mutant], root: Path = ROOT) -> None:
    """From now on these mutants' modules are loaded as mutated. Raises ValueError for two that overlap.

    Modules that are imported already stay as they are: see `purge`.
    """
    files: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        files.setdefault(mutant.file, []).append(mutant)
    sources = {module_of(file): (file, source_of(root, planted)) for file, planted in files.items()}
    sys.meta_path.insert(0, _Finder(root, sources))


def purge(prefixes: Iterable[str]) -> None:
    """Forget the imported modules that are named so, or lie below: whoever imports them next gets new ones."""
    names = tuple(prefixes)
    for module in list(sys.modules):
        if module in names or module.startswith(tuple(f"{name}." for name in names)):
            del sys.modules[module]
    importlib.invalidate_caches()


def variables(mutant_ids: Iterable[str]) -> dict[str, str]:
    """What a process needs in its environment so that these mutants are planted in it, and in all below it."""
    path = os.environ.get("PYTHONPATH")
    return {VARIABLE: "\n".join(mutant_ids), "PYTHONPATH": f"{SITE}{os.pathsep}{path}" if path else str(SITE)}


def plant_named() -> None:
    """Plant the mutants that the environment names. Raises LookupError for one that there is not."""
    mutants = []
    for mutant_id in os.environ.get(VARIABLE, "").splitlines():
        mutant = find_mutant(ROOT, mutant_id)
        if mutant is None:
            raise LookupError(f"no mutant {mutant_id}")
        mutants.append(mutant)
    if mutants:
        plant(mutants)
