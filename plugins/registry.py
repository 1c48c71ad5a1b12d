"""Finds the class of a plug-in: a built-in, an entry point, an installed module, or a class path of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.plugins.class_path import ClassPath
from kafka_sidecar.plugins.hooks import Hook, class_problem, object_problem
from kafka_sidecar.plugins.spelling import did_you_mean

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
