"""The plug-in that a thread is calling now, read from the thread's stack by another one: calls cost nothing for it.

Functions that call plug-ins say with `calls_plug_in` which of their variables name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, TypeVar

MAX_FRAMES = 15  # of a stack that is shown: the innermost
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Call:
    """A plug-in that is being called."""

    kind: str  # "policy" or "interceptor"; the same as the key of a log line
    name: str
    hook: str
    topic: str | None = None


Describe = Callable[[Mapping[str, Any]], Call]  # by the local variables of the function that calls it
_callers: dict[CodeType, Describe] = {}


def calls_plug_in(describe: Describe) -> Callable[[F], F]:
    """For functions that call plug-ins. The function stays as it is."""

    def register(function: F) -> F:
        _callers[function.__code__] = describe
        return function

    return register


def call_in(frame: FrameType | None) -> Call | None:
    """The innermost call of a plug-in in the stack that ends with a frame, which may be that of another thread."""
    while frame is not None:
        if (describe := _callers.get(frame.f_code)) is not None:
            try:
                return describe(frame.f_locals)
            except (LookupError, AttributeError, TypeError):  # it has gone on meanwhile, or is not that far
                return None
        frame = frame.f_back
    return None


def keys_of(call: Call | None) -> dict[str, str | None]:
    """The keys of a log line that name it."""
    return {} if call is None else {call.kind: call.name, "hook": call.hook, "topic": call.topic}


def lines_of(frame: FrameType | None) -> list[str]:
    """Where a stack is: file, line and function of its innermost frames, the innermost last. Never a value."""
    lines: list[str] = []
    while frame is not None and len(lines) < MAX_FRAMES:
        lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return lines[::-1]
