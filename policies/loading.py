"""Finds the class of a policy: built in, from an entry point, by its module and name, or on a class path of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from kafka_sidecar.policies.class_path import ClassPath
from kafka_sidecar.policies.contract import RecordValidationPolicy

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "kafka_sidecar.policies"
# Imported when they are first used: some bring libraries along.
BUILT_IN = {
    "cel": "kafka_sidecar.policies.cel:Cel",
    "headers": "kafka_sidecar.policies.headers:Headers",
    "json": "kafka_sidecar.policies.well_formed_json:WellFormedJson",
    "key": "kafka_sidecar.policies.key:Key",
    "limits": "kafka_sidecar.policies.limits:Limits",
    "require_header": "kafka_sidecar.policies.require_header:RequireHeader",
    "timestamp": "kafka_sidecar.policies.timestamp:Timestamp",
}
PolicyClass = type[RecordValidationPolicy]
_NAME = re.compile(r"[\w-]+")
_CLASS = re.compile(r"(?P<module>\w+(?:\.\w+)*)[:.](?P<name>\w+)")


def installed() -> dict[str, EntryPoint]:
    """What other distributions offer under the group ``kafka_sidecar.policies``, by name."""
    from importlib.metadata import entry_points  # brings the parser of e-mails along: not before it is needed

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def known() -> dict[str, str]:
    """Every policy that has a name without configuration, and where its class is; built-ins win."""
    return {name: point.value for name, point in installed().items()} | BUILT_IN


def find(name: str, class_path: str | None = None) -> PolicyClass:
    """The class that is called ``name``.

    Args:
        name: of a built-in or entry point, or ``module:Class``, or ``module.Class``.
        class_path: folders, zips and wheels, separated by ``:``; where given, ``name`` is a module and class, searched
            here before the program's own modules.

    Raises:
        ValueError: there is none, or it is no policy; one line that names what was looked for and where.
    """
    if class_path is not None:
        return _loaded(name, ClassPath(class_path).load, f"on the class path {class_path}")
    if _NAME.fullmatch(name):
        return by_name(name)
    return _loaded(name, import_module, "among the installed modules")


def by_name(name: str) -> PolicyClass:
    """The class of a built-in policy or an entry point.

    Raises:
        ValueError: there is none of that name, or it cannot be loaded.
    """
    if name in BUILT_IN:
        return _loaded(BUILT_IN[name], import_module, "built in")
    plug_ins = installed()
    if name not in plug_ins:
        names = ", ".join(sorted({*BUILT_IN, *plug_ins}))
        raise ValueError(f"there is no policy {name!r}: set its type to module:Class, or to one of {names}")
    return _loaded(plug_ins[name].value, import_module, f"at the entry point {name} of {ENTRY_POINTS}")


def _loaded(name: str, load: Callable[[str], ModuleType], where: str) -> PolicyClass:
    parts = _CLASS.fullmatch(name)
    if parts is None:
        raise ValueError(f"{name!r} names no class: write module:Class, such as acme.policies:Orders")
    sought = f"policy class {parts['name']} of module {parts['module']}, {where}"
    try:
        found = getattr(load(parts["module"]), parts["name"], None)
    except ImportError as error:
        remedy = "; install it, or put it on the class_path" if isinstance(error, ModuleNotFoundError) else ""
        raise ValueError(f"{sought}: cannot be imported: {error}{remedy}") from error
    except (Exception, SystemExit) as error:
        raise ValueError(f"{sought}: its module failed: {type(error).__name__}: {error}") from error
    if found is None:
        raise ValueError(f"{sought}: the module has no such class")
    if not (isinstance(found, type) and issubclass(found, RecordValidationPolicy)):
        raise ValueError(f"{sought}: is no subclass of {RecordValidationPolicy.__module__}.RecordValidationPolicy")
    return found
