"""A JSON Schema that accepts what a shape has seen, and says what all of it has in common."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kafka_sidecar.pipeline.suggest.shape import CAPS, Integers, Objects, Shape
from kafka_sidecar.pipeline.suggest.spread import Spread
from kafka_sidecar.pipeline.suggest.strings import FORMATS, PARTICULAR, Strings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_ENUM_INTEGERS = 8
OFTEN = 20  # how often each of few values is there on average
# A map by its look: with so many names, which are so rare.
MAP_NAMES, MAP_SHARE = 32, 0.1
MAP_OF_FORM = 8  # names that all have a particular form
# From 2001 to 2100, by what they count: times that grow, so the newest one is no limit.
TIMES = tuple((unit, 1_000_000_000 * scale, 4_102_444_800 * scale) for unit, scale in (
    ("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9),
))  # fmt: skip

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """How much is said."""

    tolerance: float = 0.0  # the share of what may be otherwise
    is_closed: bool = False  # fields that were never there are forbidden
    with_ranges: bool = True  # of numbers, and of the lengths of strings and arrays
    evidence: int = 100  # how many values ranges, enums and maps are believed of


def schema_of(shape: Shape, options: Options) -> Schema:
    """The schema of one place.

    >>> shape = Shape()
    >>> for value in ({"id": 1}, {"id": 2, "note": None}):
    ...     shape.add(value)
    >>> schema_of(shape, Options())["required"]
    ['id']
    """
    counts = shape.counts
    total = sum(counts.values())
    kept = [name for name, count in counts.items() if count > options.tolerance * total]
    if kept in ([], ["null"]):
        return {}  # only null was there: nothing is known of another value
    if "number" in kept and "integer" in kept:
        kept.remove("integer")
    found: Schema = {"type": kept[0] if len(kept) == 1 else kept}
    if "object" in kept and shape.objects is not None:
        found |= _of_objects(shape.objects, options)
    if "array" in kept and shape.arrays is not None:
        if shape.arrays.items is not None and (items := schema_of(shape.arrays.items, options)):
            found["items"] = items
        found |= _lengths(shape.arrays.lengths, "Items", options)
    if "string" in kept and shape.strings is not None:
        found |= _of_strings(shape.strings, options, kept)
    if "number" in kept and shape.floats is not None:
        spread = Spread()
        spread.merge(shape.floats)
        if shape.integers is not None:
            spread.merge(shape.integers.spread_of_all())
        found |= _range(spread, options)
    elif "integer" in kept and shape.integers is not None:
        found |= _of_integers(shape.integers, options, kept)
    return found


def _of_objects(objects: Objects, options: Options) -> Schema:
    if objects.names is None:
        if objects.values is None or objects.keys is None:
            return {}
        return _of_map(objects.values, objects.keys, options)
    if _looks_like_map(objects, options):
        copy = deepcopy(objects)
        copy.become_map(CAPS[0])
        assert copy.values is not None and copy.keys is not None  # noqa: PT018
        return _of_map(copy.values, copy.keys, options)
    allowed = options.tolerance * objects.count
    fields = {
        name: shape for name, shape in sorted(objects.names.items()) if not options.is_closed or shape.count > allowed
    }
    found: Schema = {"properties": {name: schema_of(shape, options) for name, shape in fields.items()}}
    if required := [name for name, shape in fields.items() if objects.count - shape.count <= allowed]:
        found["required"] = required
    if options.is_closed:
        found["additionalProperties"] = False
    return found


def _of_map(values: Shape, keys: Strings, options: Options) -> Schema:
    found: Schema = {"additionalProperties": schema_of(values, options) or True}
    _, pattern = keys.pattern(options.tolerance)
    if pattern is not None:
        found["propertyNames"] = {"pattern": f"^{pattern}$"}
    return found


def _looks_like_map(objects: Objects, options: Options) -> bool:
    names = objects.names or {}
    if objects.count < options.evidence or len(names) < MAP_OF_FORM:
        return False
    found = Strings()
    for name in names:
        found.add(name)
    if found.form(0) in PARTICULAR | {"digits"}:
        return True
    shares = [shape.count / objects.count for shape in names.values()]
    return len(names) >= MAP_NAMES and sum(shares) / len(shares) <= MAP_SHARE and max(shares) < 1 / 2


def _of_strings(strings: Strings, options: Options, kept: list[str]) -> Schema:
    others = set(kept) - {"string", "null"}
    values = None if others else strings.few_values(options.tolerance, options.evidence)
    if values is not None:
        return {"enum": [*values, None] if "null" in kept else values}
    form, pattern = strings.pattern(options.tolerance)
    found: Schema = {}
    if form in FORMATS:
        found["format"] = FORMATS[form]
    if pattern is not None:
        found["pattern"] = f"^{pattern}$"
    if pattern is None or pattern.endswith("+"):
        found |= _lengths(strings.folded().lengths, "Length", options)
    return found


def _of_integers(integers: Integers, options: Options, kept: list[str]) -> Schema:
    spread = integers.spread_of_all()
    count = spread.count
    least, most = spread.ends(options.tolerance)
    values = [one for one in integers.values or () if least <= one <= most]
    is_few = 0 < len(values) <= MAX_ENUM_INTEGERS and count >= max(options.evidence, OFTEN * len(values))
    if is_few and most - least + 1 > len(values) and not set(kept) - {"integer", "null"}:
        return {"enum": [*sorted(values), None] if "null" in kept else sorted(values)}
    return _range(spread, options)


def _range(spread: Spread, options: Options) -> Schema:
    if not options.with_ranges or spread.count < options.evidence:
        return {}
    least, most = spread.ends(options.tolerance)
    for unit, first, last in TIMES:
        if least >= first and most <= last:
            return {"description": f"a time in {unit} since 1970", "minimum": first, "maximum": last}
    return {"minimum": least, "maximum": most}


def _lengths(spread: Spread, what: str, options: Options) -> Schema:
    if not options.with_ranges or spread.count < options.evidence:
        return {}
    least, most = spread.ends(options.tolerance)
    if most == 0:
        return {}  # nothing is known of what is not empty
    return {f"min{what}": least, f"max{what}": most} if least else {f"max{what}": most}


@dataclass(frozen=True, slots=True)
class Field:
    """One place of a document, for people."""

    path: str
    count: int
    of: int  # how often it could have been there
    types: dict[str, int]
    says: str  # the keywords of its schema


def fields_of(schema: Schema, shape: Shape, path: str = "$", of: int | None = None) -> Iterator[Field]:
    """The places of a document in the order of its schema, with what was counted."""
    hidden = {"type", "properties", "items", "required", "pattern" if "format" in schema else ""}
    own = {key: value for key, value in schema.items() if key not in hidden}
    inner = own.pop("additionalProperties", None)
    says = ", ".join(f"{key} {_short(value)}" for key, value in own.items())
    yield Field(path, shape.count, shape.count if of is None else of, shape.counts, says)
    if shape.objects is not None and shape.objects.names is not None:
        for name, part in schema.get("properties", {}).items():
            yield from fields_of(part, shape.objects.names[name], f"{path}.{name}", shape.objects.count)
    if shape.objects is not None and isinstance(inner, dict):
        copy = deepcopy(shape.objects)
        if copy.names is not None:
            copy.become_map(CAPS[0])
        if copy.values is not None:
            yield from fields_of(inner, copy.values, f"{path}.*")
    if shape.arrays is not None and shape.arrays.items is not None and "items" in schema:
        yield from fields_of(schema["items"], shape.arrays.items, f"{path}[]")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(map(str, value))
    return str(value["pattern"]) if isinstance(value, dict) else str(value)


def limits_of(shape: Shape, cap: int) -> Iterator[str]:
    """The limits that were reached, each as a line."""
    if cap < CAPS[0]:
        yield f"there are so many places that objects with more than {cap} names count as maps"
    if _has_opaque(shape):
        yield "objects that are nested too deep, or in too many places, are not looked into"


def _has_opaque(shape: Shape) -> bool:
    objects, arrays = shape.objects, shape.arrays
    if objects is not None:
        inner = [*(objects.names or {}).values(), *([objects.values] if objects.values is not None else [])]
        if objects.is_opaque or any(map(_has_opaque, inner)):
            return True
    return arrays is not None and arrays.items is not None and _has_opaque(arrays.items)
