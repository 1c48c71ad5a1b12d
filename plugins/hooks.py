"""The hooks of a plug-in: which methods its contract has, and what is wrong with those of a class.

A misspelt hook would never be called, and one with wrong parameters would fail with every record: both are errors when
the class is loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

PREFIXES = ("on_", "pre_", "post_", "validate")  # public methods that begin so are hooks, or misspelt


@dataclass(frozen=True, slots=True)
class Hook:
    """One method of a contract."""

    base: type  # the class that a plug-in extends to have it called
    parameters: tuple[str, ...]  # without self
    is_async: bool

    def problem(self, name: str, plug_in: type, method: Any, passes_self: bool) -> str | None:
        """What is wrong with a plug-in's own ``method`` of this name, None if nothing."""
        if not issubclass(plug_in, self.base):
            return f"{name}() is never called: extend {self.base.__name__}"
        if not callable(method):
            return f"{name} is not a method"
        if not self.is_async and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)):
            return f"{name}() is async: hooks are not awaited"
        try:
            signature = inspect.signature(method)
        except (TypeError, ValueError):  # some functions of C have none
            return None
        try:
            signature.bind(*range(passes_self + len(self.parameters)))
        except TypeError:
            return f"{name}{signature} must be {name}({', '.join(('self',) * passes_self + self.parameters)})"
        return None


def hooks_of(base: type, *declarations: type) -> dict[str, Hook]:
    """The public methods that ``base`` and ``declarations`` declare; they are called on subclasses of ``base``."""
    methods = {name: method for one in (base, *declarations) for name, method in vars(one).items()}
    return {
        name: Hook(base, tuple(inspect.signature(method).parameters)[1:], inspect.iscoroutinefunction(method))
        for name, method in methods.items()
        if inspect.isfunction(method) and not name.startswith("_")
    }


def class_problem(plug_in: type, hooks: Mapping[str, Hook]) -> str | None:
    """What is wrong with the hooks of a class, in one line; None if nothing."""
    contract = {hook.base for hook in hooks.values()}
    for name in dir(plug_in):
        owner = next((cls for cls in plug_in.__mro__ if name in vars(cls)), object)
        if owner is not object and owner not in contract:
            raw = vars(owner)[name]
            passes_self = hasattr(raw, "__get__") and not isinstance(raw, staticmethod | classmethod)
            if problem := _problem(name, plug_in, getattr(plug_in, name), passes_self, hooks):
                return problem
    return None


def object_problem(plug_in: object, hooks: Mapping[str, Hook]) -> str | None:
    """As `class_problem`, for hooks that ``configure`` has set on the object itself."""
    for name, method in getattr(plug_in, "__dict__", {}).items():
        if problem := _problem(name, type(plug_in), method, False, hooks):
            return problem
    return None


def _problem(name: str, plug_in: type, method: Any, passes_self: bool, hooks: Mapping[str, Hook]) -> str | None:
    if name in hooks:
        return hooks[name].problem(name, plug_in, method, passes_self)
    if name.startswith(PREFIXES) and callable(method):
        nearest = get_close_matches(name, hooks, n=1)
        remedy = f"did you mean {nearest[0]}()?" if nearest else f"rename it to _{name}()"
        return f"{name}() is not a hook: {remedy}"
    return None
