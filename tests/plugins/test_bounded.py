"""What is remembered by names that clients choose is bounded in number and in bytes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pages import statements

from kafka_sidecar.plugins.bounded import Bounded

MOST, KEY_BYTES = 5, 10
ROOT = Path(__file__).parents[2]
FOLDERS = ("audit", "large_messages", "plugins", "proxy")
# What goes first is not the oldest entry, or more than the entry goes with it.
WITH_RULES_OF_THEIR_OWN = {
    "proxy/features/auditing/counting.py",  # compiled modules read it by number; groups have several names
    "proxy/exchanges/held_clients.py",  # positions by topic go with it
    "proxy/features/validation/rules.py",  # keyed by policies too
    "proxy/telemetry/log_limiter.py",  # lines that were held back are counted
}
names = st.one_of(st.text(max_size=60), st.tuples(st.integers(), st.text(max_size=60), st.none()))


@given(st.lists(st.tuples(st.sampled_from(["set", "pop", "del"]), names)))
def test_the_newest_entries_are_kept_within_number_and_bytes(steps: list[tuple[str, object]]) -> None:
    known: Bounded[object, int | None] = Bounded(MOST, KEY_BYTES)
    for number, (step, key) in enumerate(steps):
        if step == "set":
            before = list(known)
            known[key] = number
            assert known[key] == number
            left = [one for one in before if one in known]
            assert before[len(before) - len(left) :] == left
        elif step == "pop":
            expected = known.get(key)
            assert known.pop(key, None) == expected
        elif key in known:
            del known[key]
        assert len(known) <= MOST
        texts = [one if isinstance(one, str) else one[1] for one in known]  # type: ignore[index] # a tuple
        assert len(known) == 1 or sum(map(len, texts)) <= MOST * KEY_BYTES
    known.clear()
    known["x" * MOST * KEY_BYTES] = 1
    known["y"] = 2
    assert list(known) == ["y"]


@pytest.mark.bulk
def test_nothing_else_forgets_what_is_too_much_by_hand() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if any(map(_evicts, statements(ast.parse(path.read_text()))))
    }
    assert found - {"plugins/bounded.py"} == WITH_RULES_OF_THEIR_OWN


def _evicts(node: ast.AST) -> bool:
    """Whether it is: as long as there are more than so many, remove all, or the first one."""
    if not isinstance(node, ast.If | ast.While) or "len(" not in (test := ast.unparse(node.test)):
        return False
    body = "\n".join(map(ast.unparse, node.body))
    return ("MAX" in test or "_most" in test) and (".clear()" in body or "next(iter(" in body)
