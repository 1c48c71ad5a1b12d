"""Finds the class of a plug-in: a built-in, an entry point, an installed module, or a class path of its own.

Its hooks are compared with those of its contract: a misspelt one would never be called, and one with wrong parameters
would fail with every record.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.plugins.class_path import ClassPath
from kafka_sidecar.plugins.settings import did_you_mean

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


if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PlugIn(Protocol):
    def configure(self, configs: Mapping[str, Any]) -> None: ...


P = TypeVar("P", bound=PlugIn)
_NAME = re.compile(r"[\w-]+")
_CLASS = re.compile(r"(?P<module>\w+(?:\.\w+)*)[:.](?P<name>\w+)")


@cache  # it reads the metadata of all distributions, and clients may ask for names that there are not
def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, by name, as they are when the first is asked for."""
    from importlib.metadata import entry_points  # imports the email parser: only when needed

    return {point.name: point for point in entry_points(group=group)}


@dataclass(frozen=True, slots=True)
class Kind(Generic[P]):
    """One kind of plug-in: where its classes are searched, and what they must extend."""

    noun: str  # "policy"
    base: type[P]
    entry_points: str  # the group of entry points in other distributions
    built_in: Mapping[str, str]  # name -> module:Class; imported on first use, because some import large libraries
    example: str  # "acme.policies:Orders"
    hooks: Mapping[str, Hook]  # the methods of the contract

    def installed(self) -> dict[str, EntryPoint]:
        """The entry points of other distributions, by name."""
        return installed(self.entry_points)

    def known(self) -> dict[str, str]:
        """Every plug-in that can be used by name without configuration -> module:Class; built-ins win."""
        return {name: point.value for name, point in self.installed().items()} | dict(self.built_in)

    def import_built_in(self, names: Iterable[str]) -> None:
        """Import the modules of these names, where they are built-ins; one that cannot be imported is found later."""
        for name in self.built_in.keys() & set(names):
            with suppress(ImportError):
                import_module(self.built_in[name].partition(":")[0])

    def find(self, name: str, class_path: str | None = None) -> type[P]:
        """The class called ``name``.

        Args:
            name: of a built-in or an entry point, or ``module:Class``, or ``module.Class``.
            class_path: folders, zips and wheels, separated by ``:``. If given, ``name`` is a module and class, searched
                here before the program's own modules.

        Raises:
            ValueError: the class does not exist, does not extend the base class, or a hook of it is misspelt or cannot
                be called; one line that names what was searched and where.
        """
        if class_path is not None:
            return self._load(name, ClassPath(class_path).load, f"on the class path {class_path}")
        if _NAME.fullmatch(name):
            return self.by_name(name)
        return self._load(name, import_module, "among the installed modules")

    @calls_plug_in(lambda of: Call(of["self"].noun, of["name"], "configure"))
    def open(self, name: str, type_: str, class_path: str | None, settings: Mapping[str, Any]) -> tuple[P, Any]:
        """An object of the class ``type_``, configured, and its hints: None where the contract has none.

        Raises:
            ValueError: there is no such class, a setting is invalid, or it failed; one line that begins with its name.
        """
        try:
            plug_in = self.find(type_, class_path)()
            plug_in.configure(settings)
            if problem := object_problem(plug_in, self.hooks):
                raise ValueError(f"{type_}: {problem}")
            return plug_in, plug_in.hints() if "hints" in self.hooks else None  # type: ignore[attr-defined]
        except ValueError as error:
            raise ValueError(f"{self.noun} {name}: {error}") from error
        except BaseException as error:  # the panic of a library in Rust too
            failed = f"{type_} failed to start: {type(error).__name__}: {error}"
            raise ValueError(f"{self.noun} {name}: {failed}") from error

    def by_name(self, name: str) -> type[P]:
        """The class of a built-in or an entry point.

        Raises:
            ValueError: the name is unknown, or the class cannot be loaded.
        """
        if name in self.built_in:
            return self._load(self.built_in[name], import_module, "built in")
        plug_ins = self.installed()
        if name not in plug_ins:
            names = sorted({*self.built_in, *plug_ins})
            likely = did_you_mean(name, names)
            remedy = f"{likely}set its type to module:Class, or to one of {', '.join(names)}"
            raise ValueError(f"unknown {self.noun} {name!r}: {remedy}")
        return self._load(plug_ins[name].value, import_module, f"at the entry point {name} of {self.entry_points}")

    def _load(self, name: str, load: Callable[[str], ModuleType], where: str) -> type[P]:
        parts = _CLASS.fullmatch(name)
        if parts is None:
            raise ValueError(f"{name!r} is not the name of a class: write module:Class, such as {self.example}")
        sought = f"{self.noun} class {parts['name']} of module {parts['module']}, {where}"
        try:
            module = load(parts["module"])
            found = getattr(module, parts["name"], None)
        except ImportError as error:
            remedy = "; install it, or put it on the class_path" if isinstance(error, ModuleNotFoundError) else ""
            raise ValueError(f"{sought}: cannot be imported: {error}{remedy}") from error
        except (Exception, SystemExit) as error:
            raise ValueError(f"{sought}: its module failed: {type(error).__name__}: {error}") from error
        if found is None:
            classes = [own for own, one in vars(module).items() if isinstance(one, type) and issubclass(one, self.base)]
            likely = did_you_mean(parts["name"], classes).rstrip()
            raise ValueError(f"{sought}: the module has no such class{likely and f', {likely}'}")
        if not (isinstance(found, type) and issubclass(found, self.base)):
            raise ValueError(f"{sought}: is not a subclass of {self.base.__module__}.{self.base.__name__}")
        if problem := class_problem(found, self.hooks):
            raise ValueError(f"{sought}: {problem}")
        return found
