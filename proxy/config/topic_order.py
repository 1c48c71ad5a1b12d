"""Entries of ``topics:`` that can never apply, because an earlier one matches every name that they match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kafka_sidecar.proxy.config.mistakes import Mistake

_ANY = "\x00"  # in place of "*": only another "*" covers it
_SYNTAX = {"*": ".*", "?": f"[^{_ANY}]"}


def find_dead_entries(names: Sequence[str]) -> Iterator[Mistake]:
    """A mistake for each name or pattern that an earlier one covers; brackets are not looked into."""
    seen: dict[str, int] = {}
    patterns: list[tuple[re.Pattern[str], int]] = []
    for index, name in enumerate(names):
        earlier = seen.setdefault(name, index)
        if earlier == index and "[" not in name:
            symbols = name.replace("*", _ANY)
            earlier = next((at for pattern, at in patterns if pattern.fullmatch(symbols)), index)
            if "*" in name or "?" in name:
                patterns.append((_covering(name), index))
        if earlier != index:
            what = f"entry {earlier + 1}, {names[earlier]}, matches all of its topics first"
            yield Mistake(("topics", index, "name"), f"{name} never applies: {what}; remove one, or put this one first")


def _covering(pattern: str) -> re.Pattern[str]:
    """What matches the patterns that match no name which this one does not match."""
    return re.compile("".join(_SYNTAX.get(symbol, re.escape(symbol)) for symbol in pattern), re.DOTALL)
