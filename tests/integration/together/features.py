"""The columns of the matrix: what each feature adds to the sidecar's configuration, and to how clients connect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import sasl
from harness.sidecar import NODE_PORTS
from harness.tls import CLIENTS_CA, from_clients, to_brokers
from integration.scenarios.security import Login, Security

from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

Section = dict[str, Any]
MECHANISM = "SCRAM-SHA-256"
ALICE = Login(MECHANISM, "alice", "pw-of-alice")  # a user of the sidecar's own
PLUGGED = Path(__file__).with_name("plugged")
LIMIT = 100_000  # of the topic's batches
MAX_RECORDS = 3  # of a batch


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run takes place."""

    topic: str
    denied: str  # a topic that no client may read or write
    folder: Path
    features: frozenset[str]
    registry: str = ""  # the address of a schema registry, if one is needed

    @property
    def unseen(self) -> str:
        """A topic of which clients may not even know."""
        return f"{self.denied}-unseen"

    @property
    def principal(self) -> str:
        return f"User:{ALICE.user}" if "client_login" in self.features else "User:ANONYMOUS"

    @property
    def events(self) -> Path:
        """What the interceptor that only looks has seen."""
        return self.folder / "events"

    @property
    def objects(self) -> Path:
        return self.folder / "objects"

    @property
    def letters(self) -> str:
        """The dead letter topic."""
        return f"{self.topic}.dlq"

    @property
    def audit(self) -> str:
        """The topic of the audit."""
        return f"{self.topic}-audit"


@dataclass(frozen=True, slots=True)
class Feature:
    """One column."""

    name: str
    about: str  # as the page says it
    section: Callable[[Place], Section] = lambda _: {}


def _interceptor(kind: str, **settings: Any) -> Callable[[Place], Section]:
    def section(place: Place) -> Section:
        entry = {
            "type": f"together_hooks:{kind}", "name": kind.lower(), "topics": [place.topic],
            "class_path": str(PLUGGED), "budget": "1m", "max_failures": 0, **settings,
        }  # fmt: skip
        return {"interceptors": [entry]}

    return section


def _looks(place: Place) -> Section:
    own = _interceptor("Looks", events=str(place.events))(place)
    return {"interceptors": [{"type": "latency", "name": "latency", "topics": [place.topic]}, *own["interceptors"]]}


def _large(**entry: Any) -> Callable[[Place], Section]:
    # No message fits in the cache: slices that are not in the same response are read back.
    return lambda place: {"large_messages": {"cache": 1, "topics": [{"name": place.topic, **entry}]}}


def _objects(place: Place) -> Section:
    section = _large(store="object", object_above="100KiB")(place)
    section["large_messages"]["object_store"] = f"file://{place.objects}"
    return section


def _audit(place: Place) -> Section:
    return {"audit": {
        "topic": place.audit, "partitions": 1, "topics": [place.topic, place.denied], "emitter_id": "pod-1",
        "auditor_reporting_interval_ms": 600_000, "auditor_reporting_delay_ms": 0, "auditor_bucket_ms": 86_400_000,
    }}  # fmt: skip


def _authorization(place: Place) -> Section:
    every = {"principals": [place.principal], "operations": ["all"]}
    return {"authorization": {"default": "deny", "rules": [
        {**every, "topics": [place.topic]},
        {**every, "groups": [f"{place.topic}-*"]},
        {**every, "transactional_ids": [f"{place.topic}-*"]},
        {"principals": ["User:mallory"], "topics": ["*"]},
        # Clients get to know its leader, so that they name it in the same requests as the other one.
        {"principals": [place.principal], "operations": ["describe"], "topics": [place.denied]},
    ]}}  # fmt: skip


def _habits(place: Place) -> Section:
    return {"producers": [
        {"topics": [place.topic], "principals": ["User:mallory"], "mode": "off"},
        {"topics": [place.topic], "acks": 1, "client_id": ".+", "max_records": MAX_RECORDS},
    ]}  # fmt: skip


def _client_login(place: Place) -> Section:
    users = place.folder / "users"
    users.write_text(format_user(ALICE.user, MECHANISM, create_verifier(MECHANISM, ALICE.password)))
    return {"clients": {"sasl": {"mechanisms": [MECHANISM], "users_file": str(users)}}}


def _tls(place: Place) -> Section:
    section = {**from_clients(place.folder), **to_brokers(place.folder)}
    section["brokers"]["security_protocol"] = "SASL_SSL" if "broker_login" in place.features else "SSL"
    return section


def _broker_login(place: Place) -> Section:
    password = place.folder / "password"
    password.write_text(sasl.PASSWORD)
    login = {"mechanism": MECHANISM, "username": sasl.USER, "password_file": str(password)}
    protocol = "SASL_SSL" if "tls" in place.features else "SASL_PLAINTEXT"
    return {"brokers": {"security_protocol": protocol, "sasl": login}}


def _policies(place: Place) -> Section:
    """All that validates the topic in one entry: the first one of a topic is the only one."""
    names = [name for name in ("json", "schema") if name in place.features]
    action = next((name.partition("_")[2] for name in ("consume_hide", "consume_mark") if name in place.features), None)
    entry: Section = {"name": place.topic}
    section: Section = {"topics": [entry]}
    if names:
        entry["policy"] = ", ".join(names)
    if "dead_letters" in place.features:
        entry["dead_letters"] = place.letters
    if action is not None:
        entry["consume"] = {"action": action, "policy": "undamaged"}
        section["policies"] = {"undamaged": {"type": "headers", "values": {"do": "hide|edit|"}}}
    if len(entry) == 1:
        return {}
    if "schema" not in names:
        return section
    policy = {"registry": "main", "forms": ["confluent_header"]}
    if "topic_configs" in place.features:
        section["topic_configs"] = {"schema_policy": "schema"}
    policies = {**section.get("policies", {}), "schema": policy}
    return {**section, "policies": policies, "schema_registries": {"main": {"urls": [place.registry]}}}


def _rate_limits(place: Place) -> Section:
    """Less than clients send and get at once; few of their connections have two responses with records."""
    of_each = {"topics": [place.topic], "per": ["client_id"], "burst": "200ms"}
    return {"rate_limits": [
        {"name": "bytes", **of_each, "produce_bytes": 400_000, "consume_bytes": 400_000},
        {"name": "requests", "per": ["client_id", "principal"], "requests": 200},
    ]}  # fmt: skip


def _dead_letters(place: Place) -> Section:
    """Of all topics; the topic's own is in the entry that has its policies."""
    return {"dead_letters": {"create": {"partitions": 1}, "spool_folder": str(place.folder / "letters")}}


def _guards(place: Place) -> Section:
    entry = {"topics": [f"{place.topic}*"], "partitions": {"min": 2}, "other_configs": "deny", "delete": "deny"}
    return {"topic_guards": [entry]}


FEATURES: Mapping[str, Feature] = {
    one.name: one
    for one in (
        Feature("json", "policy `json` in the configuration; some batches have invalid records"),
        Feature("schema", "policy `schema`: values are of a JSON Schema whose GUID is in a header; some are not"),
        Feature("dead_letters", "a dead letter topic; what a policy rejects is in it", _dead_letters),
        Feature("consume_hide", "a policy of consumers rejects some stored records: `consume` hides them"),
        Feature("consume_mark", "the same: `consume` marks them"),
        Feature("looks", "the interceptor `latency` and one of the test's own, which change nothing", _looks),
        Feature("changes", "an interceptor that adds headers and changes values", _interceptor("Changes")),
        Feature("hides", "an interceptor that drops records", _interceptor("Hides")),
        Feature("fails", "an interceptor that raises in `on_send` and `on_consume`", _interceptor("Fails")),
        Feature("slices", "large messages, stored in slices", _large()),
        Feature("objects", "large messages, stored in an object store", _objects),
        Feature("li", "large messages in segments that li-apache-kafka-clients has produced", _large()),
        Feature("audit", "audit", _audit),
        Feature("authorization", "rules; another topic in the same requests is denied", _authorization),
        Feature("habits", "producers may send three records a batch at most; some batches have four", _habits),
        Feature("topic_configs", "`record.validation.policy` on the topic, set through the sidecar",
                lambda place: {"topic_configs": {"topic": f"{place.topic}-configs"}}),
        Feature("broker_login", "the sidecar logs in to the brokers", _broker_login),
        Feature("client_login", "clients log in to the sidecar", _client_login),
        Feature("tls", "TLS on both sides",
                _tls),
        Feature("topic_guards", "a guard: the topic may not be deleted, and has no other configs", _guards),
        Feature("workers", "two workers", lambda _: {"workers": 2}),
        Feature("quotas", "the brokers throttle the clients: their byte rates are limited"),
        Feature("rate_limits", "the sidecar throttles the clients: limits of bytes and requests", _rate_limits),
        Feature("small_buffer", "`connections.max_buffered: 1MiB`",
                lambda _: {"connections": {"max_buffered": "1MiB"}}),
        Feature("watched", "an open tap and an open page: each record is shown once, and no value",
                lambda _: {"tap": {"max_rate": 10_000}}),
    )
}  # fmt: skip
# Values of one parameter each.
EXCLUSIVE = (frozenset({"slices", "objects", "li"}), frozenset({"consume_hide", "consume_mark"}))


def exclude_each_other(name: str, other: str) -> bool:
    """Whether two features can never be on together."""
    return name != other and any({name, other} <= group for group in EXCLUSIVE)


def sections(place: Place) -> Section:
    """The sidecar's configuration with all features of a run."""
    common: Section = {"nodes": {"ports": NODE_PORTS}, "interception": {"message_max_bytes": LIMIT}}
    own = (one.section(place) for one in FEATURES.values() if one.name in place.features)
    return merged([common, _policies(place), *own])


def merged(parts: Iterable[Section]) -> Section:
    """Sections of the same name become one, lists are joined, and of values the last counts.

    >>> merged([{"a": {"b": [1]}}, {"a": {"b": [2], "c": 3}}])
    {'a': {'b': [1, 2], 'c': 3}}
    """
    whole: Section = {}
    for part in parts:
        for key, value in part.items():
            old = whole.get(key)
            if isinstance(old, dict) and isinstance(value, dict):
                whole[key] = merged([old, value])
            elif isinstance(old, list) and isinstance(value, list):
                whole[key] = [*old, *value]
            else:
                whole[key] = value
    return whole


def security(place: Place) -> Security:
    """How clients connect to the sidecar."""
    ca = CLIENTS_CA.write(place.folder, "sidecar-ca") if "tls" in place.features else None
    return Security(ca, login=ALICE if "client_login" in place.features else None)
