"""The source of a Python function under construction: its lines, and the objects that its free names refer to."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka_sidecar.codec.errors import CodecError, TruncatedError
from kafka_sidecar.codec.schema.fields import Versions
from kafka_sidecar.codec.schema.structs import Declaration


class Source:
    """The source of one function for one declaration in one version."""

    def __init__(self, declaration: Declaration, version: int, purpose: str, *functions: Callable[..., Any]) -> None:
        self.declaration = declaration
        self.version = version
        self.title = f"{declaration.name} v{version}"
        self.purpose = purpose
        self._lines: list[str] = []
        self._indent = 0
        self._count = 0
        self._names: dict[str, Any] = {
            "TITLE": self.title,
            "CodecError": CodecError,
            "TruncatedError": TruncatedError,
            "FormatError": struct.error,
            **{function.__name__: function for function in functions},
        }

    def add(self, *lines: str) -> None:
        self._lines += [" " * self._indent + line for line in lines]

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.open(opening)
        yield
        self.close()

    def open(self, opening: str) -> None:
        self.add(opening)
        self._indent += 1

    def close(self) -> None:
        self._indent -= 1

    def fresh(self, stem: str) -> str:
        """A local name that is not used elsewhere in the function."""
        self._count += 1
        return f"{stem}_{self._count}"

    def bind(self, name: str, thing: Any) -> str:
        """A name that refers to ``thing`` in the function."""
        if self._names.setdefault(name, thing) is not thing:
            name = self.fresh(name)
            self._names[name] = thing
        return name

    def unpacker(self, characters: str) -> str:
        return self.bind(f"unpack_{characters.replace('?', 'o')}", _format(characters)[0])

    def packer(self, characters: str) -> str:
        return self.bind(f"pack_{characters.replace('?', 'o')}", _format(characters)[1])

    def raise_bad_length(self, what: str, length: str) -> str:
        """The statement that raises for an invalid length."""
        return f"raise bad_length(TITLE + {' ' + what!r}, {length})"

    def is_compact(self, flexible: Versions | None) -> bool:
        """Whether lengths are varints in this version; ``flexible`` is a field's override of the message's."""
        return self.declaration.is_flexible(self.version) if flexible is None else self.version in flexible

    def function(self, name: str) -> Callable[..., Any]:
        code = compile("\n".join(self._lines), f"<{self.purpose} {self.title}>", "exec")
        exec(code, self._names)  # noqa: S102 - built from our own declarations, never from input
        return self._names[name]  # type: ignore[no-any-return]


_formats: dict[str, tuple[Callable[..., Any], Callable[..., bytes]]] = {}


def _format(characters: str) -> tuple[Callable[..., Any], Callable[..., bytes]]:
    if characters not in _formats:
        made = struct.Struct(">" + characters)
        _formats[characters] = made.unpack_from, made.pack
    return _formats[characters]
