"""The chart's values as a table in its README.md and as values.schema.json, both from the comments of values.yaml.

`make chart-docs` writes them. A comment is `## @param NAME [TYPE|...] text`; a word that is no type is a valid value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from kafka_sidecar.proxy.cli.schema import build_schema

CHART = Path(__file__).parents[2] / "helm" / "kafka-sidecar"
README, SCHEMA = CHART / "README.md", CHART / "values.schema.json"
BEGIN, END = "<!-- values: written by `make chart-docs` -->\n", "<!-- end of values -->\n"

_LINE = re.compile(r"^## @(?P<kind>section|param) (?P<rest>.+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?P<name>\S+) \[(?P<types>[^\]]+)\] (?P<text>.+)")
_TYPES = {"string", "integer", "boolean", "object", "array", "null"}
_CONFIG = "config"  # the type of the configuration file
_DIALECT = "http://json-schema.org/draft-07/schema#"  # the newest that all releases of Helm 3 know

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    types: tuple[str, ...]
    text: str
    default: Any


def read_sections() -> Mapping[str, list[Parameter]]:
    """The parameters of values.yaml by section, in their order."""
    text = (CHART / "values.yaml").read_text()
    values = yaml.safe_load(text)
    sections = dict[str, list[Parameter]]()
    for line in _LINE.finditer(text):
        if line["kind"] == "section":
            parameters = sections[line["rest"]] = []
            continue
        found = _PARAMETER.fullmatch(line["rest"])
        assert found, f"not NAME [TYPE] text: {line['rest']}"
        default = reduce(lambda part, key: part[key], found["name"].split("."), values)
        parameters.append(Parameter(found["name"], tuple(found["types"].split("|")), found["text"], default))
    return sections


def all_keys(values: Mapping[str, Any], described: set[str], prefix: str = "") -> Iterator[str]:
    """The keys of values.yaml; those under a described one are not listed, because it is described as a whole."""
    for key, value in values.items():
        name = prefix + key
        if name not in described and isinstance(value, dict) and value:
            yield from all_keys(value, described, f"{name}.")
        else:
            yield name


def write_table() -> str:
    parts = []
    for section, parameters in read_sections().items():
        parts.append(f"### {section}\n\n| key | type | default | means |\n| --- | --- | --- | --- |\n")
        for one in parameters:
            types = ", ".join(f"`{name}`" if name not in _TYPES else name for name in one.types if name != _CONFIG)
            default = json.dumps(one.default, separators=(", ", ": "))
            parts.append(f"| `{one.name}` | {types or 'object'} | `{default}` | {one.text} |\n")
        parts.append("\n")
    return "".join(parts)


def write_schema() -> str:
    """Of values.yaml; unknown keys are errors, in the configuration too."""
    config = _without_titles(build_schema())
    definitions = config.pop("$defs")
    for key in ("$schema", "anyOf", "required"):  # the brokers may be in a variable
        config.pop(key, None)
    root: Schema = _section({"global": {"type": "object"}})  # Helm adds it to the values of a dependency
    for parameters in read_sections().values():
        for one in parameters:
            *folders, key = one.name.split(".")
            section = reduce(lambda part, name: part["properties"].setdefault(name, _section({})), folders, root)
            section["properties"][key] = {"description": one.text, **_type_of(one)}
    schema = {"$schema": _DIALECT, **root, "definitions": {**definitions, _CONFIG: config}}
    return json.dumps(schema, indent=1).replace("#/$defs/", "#/definitions/") + "\n"


def _section(properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _type_of(parameter: Parameter) -> Schema:
    if parameter.types == (_CONFIG,):
        return {"allOf": [{"$ref": f"#/definitions/{_CONFIG}"}]}
    if set(parameter.types) <= _TYPES:
        return {"type": list(parameter.types) if len(parameter.types) > 1 else parameter.types[0]}
    return {"enum": [yaml.safe_load(word) for word in parameter.types]}


def _without_titles(schema: Any) -> Any:
    """pydantic's titles repeat the keys."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if isinstance(schema, dict):
        return {
            key: _without_titles(part) for key, part in schema.items() if not (key == "title" and isinstance(part, str))
        }
    return schema


def insert_table(page: str) -> str:
    """The page with the present table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{write_table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    SCHEMA.write_text(write_schema())
    README.write_text(insert_table(README.read_text()))
