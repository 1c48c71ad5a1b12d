"""Runs tests on Python sources where compiled modules are: with KAFKA_SIDECAR_PURE=1, or if one is stale.

A compiled module hides its source. An edited source would have no effect until it is built again, and tests would pass
that should not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from kafka_sidecar.codec.compiled import MODULES

SRC = Path(__file__).parents[2] / "src"
PURE = os.environ.get("KAFKA_SIDECAR_PURE") == "1"


class PythonSources(MetaPathFinder):
    """Finds the sources of these modules, whatever was compiled from them."""

    def __init__(self, modules: frozenset[str]) -> None:
        self.modules = modules

    @classmethod
    def wanted(cls) -> PythonSources:
        """All or none: a compiled module calls the others in C, and cannot call a source."""
        return cls(frozenset(MODULES if PURE or any(map(is_stale, MODULES)) else ()))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_file_location(fullname, source(fullname)) if fullname in self.modules else None


def source(module: str) -> Path:
    return SRC.joinpath(*module.split(".")).with_suffix(".py")


def extension(module: str) -> Path | None:
    """What was compiled from a module, if anything."""
    found = PathFinder.find_spec(module, [str(source(module).parent)])
    return Path(found.origin) if found and found.origin and found.origin.endswith(".so") else None


def is_stale(module: str) -> bool:
    """Whether the source was edited after it was compiled, or types were: modules share the layout of their classes."""
    built = extension(module)
    texts = (source(module), *(source(other).with_suffix(".pxd") for other in MODULES))
    return built is not None and built.stat().st_mtime < max(text.stat().st_mtime for text in texts)
