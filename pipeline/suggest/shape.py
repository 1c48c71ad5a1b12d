"""The shape of JSON values: what each place in them was, how often, and what the values there have in common.

An object with more names than the limit is a map: its values have one shape together. The limit is `CAPS[0]` names,
and less where a document would have too many places, counted as if each map had as many values as the limit allows:
what is counted so never shrinks when more is seen, so the limit in the end depends on what was seen, and on no order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.pipeline.suggest.spread import Spread
from kafka_sidecar.pipeline.suggest.strings import Strings

CAPS = (1024, 256, 64, 16, 0)  # names of an object; 0: nothing is known of its contents
MAX_PLACES = 100_000
MAX_DEPTH = 32
MAX_NAME = 256  # characters of a field's name; an object with a longer one is a map
MAX_INTEGERS = 32  # different ones that are remembered


@dataclass(slots=True)
class Integers:
    """Integers: each of them while they are few, else their spread."""

    values: dict[int, int] | None = field(default_factory=dict)
    spread: Spread = field(default_factory=Spread)

    def add(self, number: int, times: int = 1) -> None:
        values = self.values
        if values is None:
            self.spread.add(number, times)
        elif number in values:
            values[number] += times
        elif len(values) < MAX_INTEGERS:
            values[number] = times
        else:
            self._forget_values()
            self.spread.add(number, times)

    def merge(self, other: Integers) -> None:
        if self.values is not None and other.values is not None:
            for number, times in other.values.items():
                self.add(number, times)
            return
        self._forget_values()
        other._forget_values()
        self.spread.merge(other.spread)

    def _forget_values(self) -> None:
        values, self.values = self.values, None
        for number, times in (values or {}).items():
            self.spread.add(number, times)

    def spread_of_all(self) -> Spread:
        if self.values is None:
            return self.spread
        found = Integers(dict(self.values))
        found._forget_values()
        return found.spread

    @property
    def count(self) -> int:
        return self.spread.count if self.values is None else sum(self.values.values())


@dataclass(slots=True)
class Arrays:
    """Arrays at one place: how long they are, and the shape of their items."""

    count: int = 0
    lengths: Spread = field(default_factory=Spread)
    items: Shape | None = None  # None: there was none, or it is too deep


@dataclass(slots=True)
class Objects:
    """Objects at one place: fields by name, or the shape of all values and what the names have in common."""

    count: int = 0
    names: dict[str, Shape] | None = field(default_factory=dict)
    values: Shape | None = None  # of a map; None with no names: nothing is known
    keys: Strings | None = None  # of a map

    @property
    def is_opaque(self) -> bool:
        return self.names is None and self.values is None

    def become_map(self, cap: int) -> None:
        """Keep of the fields only what they have in common; nothing if the limit is 0."""
        names, self.names = self.names, None
        if cap == 0:
            self.values = self.keys = None
        elif names is not None:
            self.values, self.keys = Shape(), Strings()
            for name, shape in names.items():
                self.keys.add(name, shape.count)
                self.values.merge(shape, cap)


@dataclass(slots=True)
class Shape:
    """What was at one place."""

    nulls: int = 0
    booleans: int = 0
    integers: Integers | None = None
    floats: Spread | None = None
    strings: Strings | None = None
    arrays: Arrays | None = None
    objects: Objects | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many there were of each type of JSON Schema, without those that never were."""
        found = {
            "object": self.objects.count if self.objects else 0,
            "array": self.arrays.count if self.arrays else 0,
            "string": self.strings.count if self.strings else 0,
            "integer": self.integers.count if self.integers else 0,
            "number": self.floats.count if self.floats else 0,
            "boolean": self.booleans,
            "null": self.nulls,
        }
        return {name: count for name, count in found.items() if count}

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def add(self, value: Any, cap: int = CAPS[0], depth: int = 0) -> None:
        """One more value, as `orjson` returns it."""
        _ADD[type(value)](self, value, cap, depth)

    def merge(self, other: Shape, cap: int = CAPS[0]) -> None:
        """All that another one has seen, under the same limit. ``other`` is not to be used after this."""
        self.nulls += other.nulls
        self.booleans += other.booleans
        self.integers = _merged(self.integers, other.integers)
        self.floats = _merged(self.floats, other.floats)
        self.strings = _merged(self.strings, other.strings)
        if self.arrays is None or other.arrays is None:
            self.arrays = self.arrays or other.arrays
        else:
            _merge_arrays(self.arrays, other.arrays, cap)
        if self.objects is None or other.objects is None:
            self.objects = self.objects or other.objects
            if self.objects is not None:
                _limit(self.objects, cap)
        else:
            _merge_objects(self.objects, other.objects, cap)

    def limit(self, cap: int) -> None:
        """Apply a lower limit to all objects."""
        if self.arrays is not None and self.arrays.items is not None:
            self.arrays.items.limit(cap)
        objects = self.objects
        if objects is None:
            return
        _limit(objects, cap)
        for shape in (objects.names or {}).values():
            shape.limit(cap)
        if objects.values is not None:
            objects.values.limit(cap)

    def places(self, cap: int) -> int:
        """How many places it has, where each map counts as if it had ``cap`` names."""
        found = 1
        if self.arrays is not None and self.arrays.items is not None:
            found += self.arrays.items.places(cap)
        if self.objects is not None:
            found += sum(shape.places(cap) for shape in (self.objects.names or {}).values())
            if self.objects.values is not None:
                found += cap * self.objects.values.places(cap)
        return found


@dataclass(slots=True)
class Document:
    """A shape that keeps to the limits."""

    shape: Shape = field(default_factory=Shape)
    cap: int = CAPS[0]
    max_places: int = MAX_PLACES

    def add(self, value: Any) -> None:
        """One more value. `settle` is called after some of them, and before the end."""
        self.shape.add(value, self.cap)

    def settle(self) -> None:
        """Lower the limit until there are not too many places."""
        for cap in CAPS:
            if cap > self.cap:
                continue
            if cap < self.cap:
                self.shape.limit(cap)
                self.cap = cap
            if self.shape.places(cap) <= self.max_places:
                return

    def merge(self, other: Document) -> None:
        """``other`` is not to be used after this."""
        cap = min(self.cap, other.cap)
        for one in (self, other):
            if one.cap > cap:
                one.shape.limit(cap)
        self.cap = cap
        self.shape.merge(other.shape, cap)
        self.settle()


def _merged(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one if other is None else other
    one.merge(other)
    return one


def _merge_arrays(one: Arrays, other: Arrays, cap: int) -> None:
    one.count += other.count
    one.lengths.merge(other.lengths)
    if one.items is None or other.items is None:
        one.items = one.items or other.items
    else:
        one.items.merge(other.items, cap)


def _merge_objects(one: Objects, other: Objects, cap: int) -> None:
    one.count += other.count
    if one.is_opaque or other.is_opaque:
        one.names = one.values = one.keys = None
        return
    if one.names is None or other.names is None:
        one.become_map(cap)
        other.become_map(cap)
        assert one.values is not None and one.keys is not None  # noqa: PT018 - neither is opaque
        assert other.values is not None and other.keys is not None  # noqa: PT018
        one.values.merge(other.values, cap)
        one.keys.merge(other.keys)
        return
    for name, shape in other.names.items():
        mine = one.names.get(name)
        if mine is None:
            one.names[name] = shape
        else:
            mine.merge(shape, cap)
    _limit(one, cap)


def _limit(objects: Objects, cap: int) -> None:
    if cap == 0 or (objects.names is not None and len(objects.names) > cap):
        objects.become_map(cap)


def _add_null(shape: Shape, value: None, cap: int, depth: int) -> None:
    shape.nulls += 1


def _add_boolean(shape: Shape, value: bool, cap: int, depth: int) -> None:
    shape.booleans += 1


def _add_integer(shape: Shape, value: int, cap: int, depth: int) -> None:
    if shape.integers is None:
        shape.integers = Integers()
    shape.integers.add(value)


def _add_float(shape: Shape, value: float, cap: int, depth: int) -> None:
    if shape.floats is None:
        shape.floats = Spread()
    shape.floats.add(value)


def _add_string(shape: Shape, value: str, cap: int, depth: int) -> None:
    if shape.strings is None:
        shape.strings = Strings()
    shape.strings.add(value)


def _add_array(shape: Shape, value: list[Any], cap: int, depth: int) -> None:
    arrays = shape.arrays
    if arrays is None:
        arrays = shape.arrays = Arrays()
    arrays.count += 1
    arrays.lengths.add(len(value))
    if not value or depth >= MAX_DEPTH:
        return
    items = arrays.items
    if items is None:
        items = arrays.items = Shape()
    depth += 1
    for one in value:
        _ADD[type(one)](items, one, cap, depth)


def _add_object(shape: Shape, value: dict[str, Any], cap: int, depth: int) -> None:
    objects = shape.objects
    if objects is None:
        objects = shape.objects = Objects()
        if cap == 0 or depth >= MAX_DEPTH:
            objects.names = None
    objects.count += 1
    depth += 1
    names = objects.names
    if names is not None:
        is_map = False
        for name, one in value.items():
            child = names.get(name)
            if child is None:
                child = names[name] = Shape()
                is_map = is_map or len(name) > MAX_NAME
            _ADD[type(one)](child, one, cap, depth)
        if is_map or len(names) > cap:
            objects.become_map(cap)
    elif objects.values is not None and objects.keys is not None:
        for name, one in value.items():
            objects.keys.add(name)
            _ADD[type(one)](objects.values, one, cap, depth)


_ADD: dict[type, Callable[[Shape, Any, int, int], None]] = {
    type(None): _add_null,
    bool: _add_boolean,
    int: _add_integer,
    float: _add_float,
    str: _add_string,
    list: _add_array,
    dict: _add_object,
}
