"""The JSON Schema of the configuration file: of its sections, and of the settings of built-in plug-ins.

It accepts what the program accepts, as far as that can be seen without the network, other files and code: aliases, keys
without a value, `off` (which YAML 1.1 reads as false), sizes and durations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

from annotated_types import Ge, Gt
from pydantic import BaseModel

from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.plugins.registry import Kind
from kafka_sidecar.plugins.settings import Settings
from kafka_sidecar.policies.registry import POLICIES
from kafka_sidecar.proxy.config.audit import LI_NAMES
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.sasl import BY_PASSWORD, CLIENT_SASL_NAMES, FOR_TOKENS
from kafka_sidecar.proxy.config.sasl import KAFKA_NAMES as SASL_NAMES
from kafka_sidecar.proxy.config.sources import KAFKA_NAMES
from kafka_sidecar.proxy.config.tls import KAFKA_NAMES as TLS_NAMES
from kafka_sidecar.proxy.config.tls import STORE_TYPES, STORES, AdminTls, BrokerTls, ClientTls

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
CLASS = r"^\w+(\.\w+)*[:.]\w+$"
TOPIC_POLICY = "record.validation.policy"  # KIP-940


def build_schema() -> Schema:
    """The schema of the whole file."""
    schema = Config.model_json_schema(by_alias=False)
    definitions: Schema = schema["$defs"]
    for section in _sections(Config):
        _add_bounds(section, schema if section is Config else definitions[section.__name__])
        _allow_empty_keys(schema if section is Config else definitions[section.__name__])
    for kind, entry in ((POLICIES, "Policy"), (INTERCEPTORS, "Interceptor")):
        _add_settings(kind, definitions[entry], definitions)
    policies = schema["properties"]["policies"]
    policies["properties"] = {name: _own_name(definitions["Policy"], name) for name in POLICIES.built_in}
    for side in (ClientTls, BrokerTls, AdminTls):
        _add_tls_names(definitions[side.__name__])
    _add_login_rules(definitions)
    _add_kafka_names(schema)
    _add_li_names(definitions["Audit"])
    topic = definitions["Topic"]
    topic["properties"][TOPIC_POLICY] = topic["properties"]["policy"]
    topic["not"] = {"required": ["policy", TOPIC_POLICY]}
    for switch in (topic["properties"]["mode"], definitions["Audit"]["properties"]["access"]):
        switch["enum"].append(False)  # as YAML reads a bare off
        switch.pop("type", None)
    return {"$schema": DIALECT, **schema, "title": "Configuration of kafka-sidecar"}


def _sections(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and those that its fields have."""
    yield model
    for field in model.model_fields.values():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _sections(kind)


def _allow_empty_keys(section: Schema) -> None:
    """A key without a value has its default; a section without keys has all of them."""
    for name, about in section.get("properties", {}).items():
        if name not in section.get("required", ()):
            section["properties"][name] = _or_null(about)
    if "required" not in section:
        section["type"] = ["object", "null"]


def _or_null(about: Schema) -> Schema:
    texts: Schema = {key: about.pop(key) for key in ("default", "description", "title") if key in about}
    if any(choice.get("type") == "null" for choice in about.get("anyOf", ())):
        return {**about, **texts}
    if "enum" in about:
        return {**about, "enum": [*about["enum"], None], "type": [about["type"], "null"], **texts}
    return {"anyOf": [about, {"type": "null"}], **texts}


def _add_settings(kind: Kind[Any], entry: Schema, definitions: Schema) -> None:
    """An entry whose type is a built-in has that one's settings, and no others."""
    own = list(entry["properties"])
    entry["allOf"] = []
    for name in kind.built_in:
        settings = getattr(kind.by_name(name), "settings", None)
        assert isinstance(settings, Settings)
        schema = type(settings).model_json_schema()
        definitions |= schema.pop("$defs", {})
        fields = schema["properties"]
        definitions[f"{kind.noun} {name}"] = {
            "properties": fields, "propertyNames": {"enum": [*own, *fields]}, "required": schema.get("required", []),
        }  # fmt: skip
        entry["allOf"].append(_if_type(name, {"$ref": f"#/$defs/{kind.noun} {name}"}))
    entry["properties"]["type"] = {
        **entry["properties"]["type"],
        "anyOf": [{"enum": sorted(kind.known())}, {"type": "string", "pattern": CLASS}]
        + ([] if "type" in entry.get("required", ()) else [{"type": "null"}]),
    }
    entry["properties"]["type"].pop("type", None)


def _if_type(name: str, then: Schema) -> Schema:
    return {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": then}


def _own_name(entry: Schema, name: str) -> Schema:
    """An entry without a type is of the type that its own name is."""
    untyped = {"not": {"properties": {"type": {"type": "string"}}, "required": ["type"]}}
    return {"$ref": "#/$defs/Policy", "if": untyped, "then": {"$ref": f"#/$defs/policy {name}"}}


def _add_kafka_names(schema: Schema) -> None:
    """Kafka's names, each in place of ours."""
    schema["allOf"] = []
    for kafka_name, location in KAFKA_NAMES.items():
        *sections, last = map(str, location)
        section: Any = Config
        for name in sections:
            section = section.model_fields[name].annotation
        where = schema["$defs"][section.__name__] if sections else schema
        schema["properties"][kafka_name] = where["properties"][last]
        ours: Schema = {"required": [last]}
        for name in reversed(sections):
            ours = {"properties": {name: {"type": "object", **ours}}, "required": [name]}
        schema["allOf"].append({"not": {"allOf": [{"required": [kafka_name]}, ours]}})
    schema["required"].remove("bootstrap_servers")
    schema["anyOf"] = [{"required": ["bootstrap_servers"]}, {"required": ["bootstrap.servers"]}]


def _add_li_names(audit: Schema) -> None:
    """li's names in the section of the auditor, each in place of ours."""
    for name, li_name in LI_NAMES.items():
        audit["properties"][li_name] = audit["properties"][name]
    audit["allOf"] = [{"not": {"required": [name, li_name]}} for name, li_name in LI_NAMES.items()]


def _add_login_rules(definitions: Schema) -> None:
    """What needs a mechanism; rules of authorization name a resource; Kafka's names."""
    at_brokers, of_clients = definitions["BrokerSasl"], definitions["ClientSasl"]
    for section, names in ((at_brokers, SASL_NAMES), (of_clients, CLIENT_SASL_NAMES)):
        known = {kafka_name: name for kafka_name, name in names.items() if name in section["properties"]}
        section["properties"] |= {kafka_name: section["properties"][name] for kafka_name, name in known.items()}
        section["allOf"] = [{"not": {"required": [kafka_name, name]}} for kafka_name, name in known.items()]
    mechanism = {"anyOf": [_given("mechanism"), _given("sasl.mechanism")]}
    needs_mechanism = [_given(name) for name in at_brokers["properties"] if not name.endswith("mechanism")]
    at_brokers["allOf"].append({"if": {"anyOf": needs_mechanism}, "then": mechanism})
    of_clients["allOf"] += _client_logins()
    resources = ("topics", "groups", "transactional_ids", "cluster")
    definitions["AclRule"] |= {"type": "object", "anyOf": [_given(name) for name in resources]}


def _client_logins() -> list[Schema]:
    """Mechanisms by password need users, those by token need keys, and neither may be there without."""
    by_password, by_token = _mentions(*BY_PASSWORD), _mentions("OAUTHBEARER")
    keys = {"oneOf": [_given("jwks_file"), _given_client("jwks_endpoint")]}
    for_tokens = {"anyOf": [_given_client(name) for name in FOR_TOKENS]}
    return [
        {"if": _given("users_file"), "then": by_password, "else": {"not": by_password}},
        {"if": by_token, "then": keys, "else": {"not": for_tokens}},
    ]


def _mentions(*mechanisms: str) -> Schema:
    """The list of mechanisms, or Kafka's text with commas, has one of these."""
    has = {
        "anyOf": [
            {"type": "string", "pattern": "|".join(mechanisms)},
            {"type": "array", "contains": {"enum": [*mechanisms]}},
        ]
    }
    names = ("mechanisms", "sasl.enabled.mechanisms")
    return {"anyOf": [{"required": [name], "properties": {name: has}} for name in names]}


def _given_client(name: str) -> Schema:
    """A setting of clients' logins has a value, under its own name or Kafka's."""
    names = [name, *(kafka_name for kafka_name, own in CLIENT_SASL_NAMES.items() if own == name)]
    return {"anyOf": [_given(one) for one in names]}


def _given(name: str) -> Schema:
    """A setting has a value that is not empty."""
    return {"required": [name], "properties": {name: {"not": {"enum": [None, "", [], {}, False]}}}}


def _add_tls_names(section: Schema) -> None:
    """Kafka's names in a section of TLS, each in place of ours; and the types of stores that can be read."""
    known = {kafka_name: name for kafka_name, name in TLS_NAMES.items() if name in section["properties"]}
    for kafka_name, name in known.items():
        section["properties"][kafka_name] = section["properties"][name]
    for kafka_name in STORE_TYPES:
        section["properties"][kafka_name] = {"anyOf": [{"type": "string", "pattern": f"^{STORES}$"}, {"type": "null"}]}
    section["allOf"] = [{"not": {"required": [kafka_name, name]}} for kafka_name, name in known.items()]


def _add_bounds(model: type[BaseModel], section: Schema) -> None:
    """Bounds of sizes and durations, which may be text."""
    for name, field in model.model_fields.items():
        about = section["properties"][name]
        least = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), 0)
        is_above_zero = any(isinstance(bound, Gt) for bound in field.metadata)
        for kind in about.get("anyOf", [about]):  # that of a setting that may be missing is one of two
            if kind.get("type") == ["string", "integer"]:
                kind |= {"minimum": least, "pattern": size_pattern(int(str(least)))}
            elif kind.get("type") == "string" and is_above_zero:
                kind.pop("gt", None)  # pydantic's, no word of JSON Schema
                kind["allOf"] = [{"pattern": "[1-9]"}]


def size_pattern(least: int) -> str:
    """A regular expression for sizes of at least this many bytes."""
    units = {"(B)?": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    parts = [rf"({_at_least(math.ceil(least / factor))})\s*{unit}" for unit, factor in units.items()]
    return f"^({'|'.join(parts)})$"


def _at_least(least: int) -> str:
    """A regular expression for decimal numbers of at least ``least``."""
    digits = str(least)
    more = [
        f"{digits[:at]}[{int(digit) + 1}-9][0-9]{{{len(digits) - at - 1}}}"
        for at, digit in enumerate(digits)
        if digit != "9"
    ]
    return "0*(" + "|".join([digits, *more, f"[1-9][0-9]{{{len(digits)},}}"]) + ")"
