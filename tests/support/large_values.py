"""Large values, and what in this process parses one as a whole: nothing else runs meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest

SIZE = 64 << 10
TEXTS = {
    "numbers": b'{"a":[%s1]}' % (b"1," * (SIZE // 2)),
    "texts": b'{"a":[%s""]}' % (b'"xy",' * (SIZE // 5)),
    "one text": b'{"a":"%s"}' % (b"x" * SIZE),
    "objects": b'{"a":[%s{}]}' % (b'{"b":{"b":{"b":{"b":1}}}},' * (SIZE // 26)),
    "escapes": b'{"a":"%s"}' % (b"\\u0041" * (SIZE // 6)),
}


def record_parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of parsers that are called with more than half of a value, from now on."""
    seen: list[str] = []

    def watch(owner: Any, name: str, of: Callable[[tuple[Any, ...]], Any]) -> None:
        real = getattr(owner, name)

        def parse(*given: Any, **named: Any) -> Any:
            if len(of(given)) > SIZE // 2:
                seen.append(f"{owner.__name__}.{name}")
            return real(*given, **named)

        monkeypatch.setattr(owner, name, parse)

    watch(orjson, "loads", lambda given: given[0])
    watch(json, "loads", lambda given: given[0])
    watch(json.JSONDecoder, "decode", lambda given: given[1])
    return seen
