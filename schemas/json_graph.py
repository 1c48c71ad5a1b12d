"""How much a JSON Schema can multiply the work on a value: an upper bound, from the schema alone.

Rules that apply each other take time that grows with the number of ways in which one rule reaches another for the same
part of a value. Without recursion that number is in the schema; with it, each level of a value may multiply it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

MAX_WAYS = 2000  # from the whole schema to all its parts
MAX_PARTS = 20_000
SAME = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")  # these apply to the same part of a value
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NAMED = ("properties",)  # each to another part
OF_NAMES = ("patternProperties", "dependentSchemas", "dependencies")
OF_CHILDREN = (
    "additionalProperties", "unevaluatedProperties", "propertyNames", "contains", "unevaluatedItems", "additionalItems",
    "prefixItems",
)  # fmt: skip

Part = int  # id of the object of a subschema
Edge = tuple[str, Any]  # "name:x" and "items": to parts of a value that no other such edge leads to; and the subschema


def can_multiply(schema: Any, documents: Mapping[str, Any]) -> bool:
    """Whether a value may take much more work than its size says. ``documents``: those that are referred to, by URI."""
    try:
        return _Graph(schema, documents).can_multiply()
    except (KeyError, RecursionError):  # a reference that is not found here, or more parts than are looked at
        return True


class _Graph:
    def __init__(self, schema: Any, documents: Mapping[str, Any]) -> None:
        self._anchors: dict[str, Any] = {}  # subschemas by URI
        self._parts: dict[Part, Any] = {}
        self._edges: dict[Part, list[tuple[str, Part]]] = {}
        self._bases: dict[Part, str] = {}
        for uri, document in {"": schema, **documents}.items():
            self._name(document, uri)
        self._root = id(schema)
        self._visit(schema)

    def can_multiply(self) -> bool:
        components = self._components()
        for part, edges in self._edges.items():
            inside = [label for label, target in edges if components[target] == components[part]]
            apart = all(label == "items" or label.startswith("name:") for label in inside)
            if len(inside) > 1 and not (apart and len(set(inside)) == len(inside)):
                return True
        return self._ways(components) > MAX_WAYS

    def _name(self, part: Any, base: str) -> None:
        """Remember subschemas by their ids and anchors."""
        if isinstance(part, dict):
            own = part.get("$id", part.get("id"))
            if isinstance(own, str):
                base = urldefrag(urljoin(base, own)).url
                self._anchors[base] = part
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(part.get(key), str):
                    self._anchors[f"{base}#{part[key]}"] = part
            self._anchors.setdefault(base, part)
            self._bases[id(part)] = base
        for inside in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            self._name(inside, base)

    def _visit(self, root: Any) -> None:
        waiting = [root]
        while waiting:
            part = waiting.pop()
            if id(part) in self._parts:
                continue
            if len(self._parts) >= MAX_PARTS:
                raise KeyError
            self._parts[id(part)] = part
            edges = list(self._edges_of(part)) if isinstance(part, dict) else []
            self._edges[id(part)] = [(label, id(target)) for label, target in edges]
            waiting += [target for _, target in edges]

    def _edges_of(self, part: dict[str, Any]) -> Iterator[Edge]:
        for key in REFERENCES:
            if isinstance(part.get(key), str):
                yield "same", self._resolve(part[key], self._bases.get(id(part), ""))
        for key in SAME:
            found = part.get(key)
            yield from (("same", one) for one in (found if isinstance(found, list) else [found]) if _is_schema(one))
        for key in NAMED:
            found = part.get(key)
            yield from ((f"name:{name}", one) for name, one in _items(found) if _is_schema(one))
        for key in OF_NAMES:
            yield from (("other", one) for _, one in _items(part.get(key)) if _is_schema(one))
        for key in OF_CHILDREN:
            found = part.get(key)
            yield from (("other", one) for one in (found if isinstance(found, list) else [found]) if _is_schema(one))
        items = part.get("items")
        if _is_schema(items):
            yield "items", items
        elif isinstance(items, list):
            yield from (("other", one) for one in items if _is_schema(one))

    def _resolve(self, reference: str, base: str) -> Any:
        """Raises KeyError."""
        uri, fragment = urldefrag(urljoin(base, reference) if not reference.startswith("#") else base + reference)
        if not fragment.startswith("/"):
            return self._anchors[f"{uri}#{fragment}" if fragment else uri]
        found = self._anchors[uri]
        for step in fragment[1:].split("/"):
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            found = found[int(name)] if isinstance(found, list) and name.isdigit() else found[name]
        if not _is_schema(found):
            raise KeyError(reference)
        return found

    def _components(self) -> dict[Part, int]:
        """The strongly connected component of each part (Tarjan's algorithm, without recursion): those that a part
        can reach have smaller numbers."""
        number: dict[Part, int] = {}
        low: dict[Part, int] = {}
        component: dict[Part, int] = {}
        stack: list[Part] = []
        work: list[tuple[Part, int]] = [(self._root, 0)]
        count = 0
        while work:
            part, at = work.pop()
            if at == 0:
                number[part] = low[part] = len(number)
                stack.append(part)
            edges = self._edges[part]
            if at > 0:
                low[part] = min(low[part], low[edges[at - 1][1]])
            while at < len(edges):
                target = edges[at][1]
                at += 1
                if target not in number:
                    work += [(part, at), (target, 0)]
                    break
                if target not in component:
                    low[part] = min(low[part], number[target])
            else:
                if low[part] == number[part]:
                    while True:
                        one = stack.pop()
                        component[one] = count
                        if one == part:
                            break
                    count += 1
        return component

    def _ways(self, components: Mapping[Part, int]) -> int:
        """In how many ways all parts are reached, recursion apart; counting stops above `MAX_WAYS`."""
        ways = dict.fromkeys(components.values(), 0)
        ways[components[self._root]] = 1
        total = 0
        for part in sorted(components, key=lambda one: -components[one]):
            reached = ways[components[part]]
            total += reached
            for _, target in self._edges[part]:
                if components[target] != components[part]:
                    ways[components[target]] += reached
            if total > MAX_WAYS:
                break
        return total


def _is_schema(one: object) -> bool:
    return isinstance(one, dict | bool)


def _items(one: object) -> Iterator[tuple[str, Any]]:
    return iter(one.items()) if isinstance(one, dict) else iter(())
