"""Replaces ``import cython`` if Cython is not installed: it is needed to build, not to run.

Never imported by a compiled module, where `compiled` is a constant of the compiler and true.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

compiled = False
nogil = nullcontext()


def cast(type_: object, value: Any) -> Any:
    """``value`` itself. Compiled, it is taken to be of this type without a check."""
    return value
