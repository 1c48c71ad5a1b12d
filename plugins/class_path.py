"""Modules from a plug-in's own class path, searched before the program's and invisible to the program (KIP-940).

Java uses a class loader for this. Here `sys.modules` is swapped: while a module of the class path runs an import
statement, when it is loaded or later in a function, `sys.modules` holds the class path's modules of the imported name,
and afterwards the program's again. So two class paths can hold two versions of one library. This does not cover
``importlib.import_module``, pickles, and C libraries that can be loaded only once.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module, invalidate_caches, util
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, all_suffixes
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

OURS = "kafka_sidecar"  # always the program's: plug-ins extend its classes
ARCHIVES = (".zip", ".whl")
CODE = tuple(all_suffixes())
FileState = tuple[str, int, int, int]  # path, modification time, inode (of a link's target), size
_SWAP_LOCK = RLock()  # sys.modules is shared by all threads


def resolve_class_path(class_path: str) -> list[str]:
    """The folders, zips and wheels of a class path; ``folder/*`` means all archives in a folder, as in Java.

    Raises:
        ValueError: one of them does not exist.
    """
    found: list[str] = []
    for entry in filter(None, class_path.split(os.pathsep)):
        path = Path(entry)
        if path.name == "*":
            found += sorted(str(archive) for archive in path.parent.glob("*") if archive.suffix in ARCHIVES)
        elif path.is_dir() or (path.is_file() and path.suffix in ARCHIVES):
            found.append(str(path))
        else:
            raise ValueError(f"class path: {entry} is not a folder, .zip or .whl; correct the path")
    if not found:
        raise ValueError(f"class path: {class_path!r} is empty; name folders, .zip or .whl files")
    return found


def code_state(class_path: str | None) -> frozenset[FileState]:
    """The files of code on a class path. It differs after one was added, changed or removed.

    Raises:
        ValueError: as `resolve_class_path`.
    """
    entries = resolve_class_path(class_path) if class_path is not None else []
    return frozenset(_state_of(path) for entry in entries for path in _find_code(Path(entry)))


def file_state(paths: Iterable[Path]) -> frozenset[FileState]:
    """These files and folders. It differs after one has changed."""
    return frozenset(map(_state_of, paths))


def _find_code(entry: Path) -> Iterator[Path]:
    if entry.is_file():
        yield entry
    for folder, folders, names in os.walk(entry):
        folders[:] = [name for name in folders if name.isidentifier() and name != "__pycache__"]  # those of packages
        yield from (Path(folder, name) for name in names if name.endswith(CODE))


def _state_of(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError:  # it is being replaced
        return str(path), -1, -1, -1
    return str(path), found.st_mtime_ns, found.st_ino, found.st_size


class ClassPath(MetaPathFinder):
    """One class path, and the modules that were loaded from it."""

    def __init__(self, class_path: str) -> None:
        self.entries = resolve_class_path(class_path)
        self._owned: dict[str, bool] = {}
        self._portions: dict[str, list[str]] = {}
        self._modules: dict[str, ModuleType] = {}
        self._swapped: set[str] = set()
        self._builtins = {**vars(builtins), "__import__": self._import}

    def load(self, module: str) -> ModuleType:
        """The module of that name, from the class path if it is there, otherwise the program's.

        Raises:
            ImportError: the module is in neither, or cannot import another one. Its code may raise anything else.
        """
        invalidate_caches()
        with self._swap(module.partition(".")[0]):
            return import_module(module)

    def owns(self, top: str) -> bool:
        """Whether the package or module of that name comes from this class path."""
        if top not in self._owned:
            found = None if top == OURS else PathFinder.find_spec(top, self.entries)
            self._owned[top] = found is not None and (found.loader is not None or self._is_shared(top))
        return self._owned[top]

    def _is_shared(self, top: str) -> bool:
        """Whether a folder is part of a namespace package: not if the program has a module of that name."""
        programs = util.find_spec(top)
        if programs is not None:
            if programs.origin is not None or programs.submodule_search_locations is None:
                return False
            self._portions[top] = list(programs.submodule_search_locations)
        return True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Called by the import system while the modules are swapped."""
        top = fullname.partition(".")[0]
        if top not in self._swapped:
            return None
        spec = PathFinder.find_spec(fullname, self.entries if fullname == top else path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ConfinedLoader(spec.loader, self._builtins)
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
        loaded = self._find_loaded(absolute, fromlist)
        if loaded is not None:
            return loaded
        with self._swap(absolute.partition(".")[0]):
            return builtins.__import__(name, globals, locals, fromlist, level)

    def _find_loaded(self, name: str, fromlist: Sequence[str]) -> ModuleType | None:
        """What an import statement finds without a swap: a function that has one may be called for every record."""
        module = self._modules.get(name)
        if module is None or not fromlist:
            return module and self._modules.get(name.partition(".")[0])
        # Not getattr: a module that imports its parts lazily needs the swap for that.
        return module if all(wanted in vars(module) for wanted in fromlist) else None

    @contextmanager
    def _swap(self, top: str) -> Iterator[None]:
        with _SWAP_LOCK:
            if top in self._swapped or not self.owns(top):
                yield
                return
            programs = _take_modules(top)
            sys.modules.update({name: module for name, module in self._modules.items() if _is_in(name, top)})
            sys.meta_path.insert(0, self)
            self._swapped.add(top)
            try:
                yield
            finally:
                self._swapped.discard(top)
                sys.meta_path.remove(self)
                self._modules.update(_take_modules(top))
                sys.modules.update(programs)


class _ConfinedLoader(Loader):
    """Runs a module whose import statements search the class path first."""

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
    """Remove the modules of a package from `sys.modules` and return them."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if _is_in(name, top)}
