"""Modules from a class path of their own: searched before the program's, and unknown to the rest of it (KIP-940).

What Java does with a class loader is done here by lending: while a module of the class path runs an import statement,
at its top or years later in a function, `sys.modules` shows the class path's modules under the name that is imported,
and the program's again afterwards. Two class paths can so hold two versions of one library. It does not reach
``importlib.import_module``, pickles, and libraries in C that may be loaded only once.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module, invalidate_caches, util
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

OURS = "kafka_sidecar"  # the contracts themselves are the program's, or no class would be a plug-in
ARCHIVES = (".zip", ".whl")
_lending = RLock()  # sys.modules is everybody's


def resolve_class_path(class_path: str) -> list[str]:
    """The folders, zips and wheels of a class path; ``folder/*`` stands for the archives in a folder, as in Java.

    Raises:
        ValueError: one of them is not there.
    """
    found: list[str] = []
    for entry in filter(None, class_path.split(os.pathsep)):
        place = Path(entry)
        if place.name == "*":
            found += sorted(str(path) for path in place.parent.glob("*") if path.suffix in ARCHIVES)
        elif place.is_dir() or (place.is_file() and place.suffix in ARCHIVES):
            found.append(str(place))
        else:
            raise ValueError(f"class path: {entry} is no folder, .zip or .whl; correct the path")
    if not found:
        raise ValueError(f"class path: there is nothing in {class_path!r}; name folders, .zip or .whl files")
    return found


class ClassPath(MetaPathFinder):
    """One class path and the modules that came from it."""

    def __init__(self, class_path: str) -> None:
        self.entries = resolve_class_path(class_path)
        self._owned: dict[str, bool] = {}
        self._portions: dict[str, list[str]] = {}
        self._modules: dict[str, ModuleType] = {}
        self._lent: set[str] = set()
        self._builtins = {**vars(builtins), "__import__": self._import}

    def load(self, module: str) -> ModuleType:
        """The module of that name, from here if it is here, otherwise the program's.

        Raises:
            ImportError: it is in neither, or cannot import something itself. Anything else is raised by its code.
        """
        invalidate_caches()
        with self._lending(module.partition(".")[0]):
            return import_module(module)

    def owns(self, top: str) -> bool:
        """Whether the package or module of that name is to come from here."""
        if top not in self._owned:
            found = None if top == OURS else PathFinder.find_spec(top, self.entries)
            self._owned[top] = found is not None and (found.loader is not None or self._is_shared(top))
        return self._owned[top]

    def _is_shared(self, top: str) -> bool:
        """Whether a folder here is part of a namespace package: not if the program has a module of that name."""
        programs = util.find_spec(top)
        if programs is not None:
            if programs.origin is not None or programs.submodule_search_locations is None:
                return False
            self._portions[top] = list(programs.submodule_search_locations)
        return True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Called by the import system while we lend."""
        top = fullname.partition(".")[0]
        if top not in self._lent:
            return None
        spec = PathFinder.find_spec(fullname, self.entries if fullname == top else path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Confined(spec.loader, self._builtins)
        elif spec is not None and fullname in self._portions:
            spec.submodule_search_locations = [*(spec.submodule_search_locations or ()), *self._portions[fullname]]
        return spec

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of __import__
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        package = (globals or {}).get("__package__")
        absolute = name if level == 0 else util.resolve_name("." * level + name, package) if package else name
        loaded = self._loaded(absolute, fromlist)
        if loaded is not None:
            return loaded
        with self._lending(absolute.partition(".")[0]):
            return builtins.__import__(name, globals, locals, fromlist, level)

    def _loaded(self, name: str, fromlist: Sequence[str]) -> ModuleType | None:
        """What an import statement finds without lending: a function that has one may be called for every record."""
        module = self._modules.get(name)
        if module is None or not fromlist:
            return module and self._modules.get(name.partition(".")[0])
        # Not getattr: a module that imports its parts when they are first asked for needs the lending for it.
        return module if all(wanted in vars(module) for wanted in fromlist) else None

    @contextmanager
    def _lending(self, top: str) -> Iterator[None]:
        with _lending:
            if top in self._lent or not self.owns(top):
                yield
                return
            programs = _take_modules(top)
            sys.modules.update({name: module for name, module in self._modules.items() if _is_in(name, top)})
            sys.meta_path.insert(0, self)
            self._lent.add(top)
            try:
                yield
            finally:
                self._lent.discard(top)
                sys.meta_path.remove(self)
                self._modules.update(_take_modules(top))
                sys.modules.update(programs)


class _Confined(Loader):
    """Runs a module with an import statement that looks into the class path first."""

    def __init__(self, loader: Any, confined: dict[str, Any]) -> None:
        self._loader, self._confined = loader, confined

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # get_source for tracebacks, get_data for resources

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._confined
        self._loader.exec_module(module)


def _is_in(name: str, top: str) -> bool:
    return name == top or name.startswith(f"{top}.")


def _take_modules(top: str) -> dict[str, ModuleType]:
    """The modules of a package, no longer in sys.modules."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if _is_in(name, top)}
