"""The policies of one configuration, and what a topic's policy string means among them.

A string is a list of ``name`` or ``name:argument``, separated by commas; an argument with a comma, or spaces at its
ends, stands in double quotes, a quote within it is doubled. With a facade class (KIP-940's
``record.validation.policy.class.name``) the whole string is that policy's own.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.plugins.settings import quote
from kafka_sidecar.policies.contract import ALL, Hints, RecordValidationPolicy
from kafka_sidecar.policies.plans import OnFailure, Plan, Rule, ignore_failure
from kafka_sidecar.policies.registry import POLICIES

MAX_CACHED_PLANS = 1024  # topics choose the strings: they must not fill the memory
MAX_RULES_PER_TOPIC = 100  # of one topic
# Nothing is tried twice (the + behind *), or a text of many spaces would take minutes.
_ITEM = re.compile(
    r"""\s*+ (?P<name>[\w-]++) \s*+
    (?: : \s*+ (?: "(?P<quoted> (?: [^"] | "" )*+ )" \s*+ | (?P<bare> [^",][^,]*+ )? ) )?+
    (?: , | \Z )""",
    re.VERBOSE,
)
SYNTAX = "write name or name:argument, separated by commas, such as json, require_header:trace-id"


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """One policy as the configuration file has it."""

    type: str  # a built-in's or entry point's name, or module:Class
    class_path: str | None = None  # folders, zips and wheels, separated by ":"
    fail_open: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # for the policy's configure()


@dataclass(frozen=True, slots=True)
class _Member:
    """A policy that is configured and open."""

    name: str
    policy: RecordValidationPolicy
    fail_open: bool
    hints: Hints

    def rule(self, text: str) -> Rule:
        self.policy.check(text)
        return Rule(self.name, self.policy, text, self.fail_open, self.hints)


class PolicyCatalog:
    """Configured policies by name, beside those that need no configuration."""

    def __init__(
        self,
        settings: Mapping[str, PolicySettings],
        facade: PolicySettings | None = None,
        report: OnFailure = ignore_failure,
    ) -> None:
        """Load and configure everything that the configuration names.

        Args:
            settings: the policies by the names that topics use.
            facade: where given, the one policy that every topic's string goes to.
            report: told of each failure of a policy that lets pass what it fails on.

        Raises:
            ValueError: a class or a setting is wrong; one line with the policy's name and the remedy.
        """
        self._report = report
        self._members: dict[str, _Member] = {}
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._facade: _Member | None = None
        try:
            for name, setting in settings.items():
                self._members[name] = _open(name, setting)
            if facade is not None:
                self._facade = _open(re.split("[:.]", facade.type)[-1], facade)
        except ValueError:
            self.close()
            raise

    def plan(self, text: str) -> Plan:
        """What a topic's ``record.validation.policy`` demands; equal texts get the same plan while it is in use.

        Raises:
            ValueError: the text names no policy, or one that cannot mean anything by its argument; says the remedy.
        """
        if text not in self._plans:
            self._plans[text] = self._compile(text)
            while len(self._plans) > MAX_CACHED_PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(text)
        return self._plans[text]

    def close(self) -> None:
        """Close every policy; what fails is reported. Plans that are still in use must not be any more."""
        for member in [*self._members.values(), *([self._facade] if self._facade else [])]:
            try:
                member.policy.close()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the others are to be closed all the same
                self._report(member.name, error)

    def _compile(self, text: str) -> Plan:
        if self._facade is not None:
            return Plan((self._rule(self._facade, text),), self._report)
        named = list(parse_items(text))
        if len(named) > MAX_RULES_PER_TOPIC:
            raise ValueError(f"names {len(named)} policies: a topic can have {MAX_RULES_PER_TOPIC}")
        return Plan(tuple(self._rule(self._member(name), argument) for name, argument in named), self._report)

    def _rule(self, member: _Member, text: str) -> Rule:
        try:
            return member.rule(text)
        except ValueError as error:
            raise ValueError(f"policy {member.name}: {error}") from error
        except (Exception, SystemExit) as error:
            raise ValueError(f"policy {member.name}: check() failed: {type(error).__name__}: {error}") from error

    def _member(self, name: str) -> _Member:
        """Configured by that name, or by its defaults on first use. A topic cannot make us import any module."""
        if name not in self._members:
            if name not in POLICIES.built_in and name not in POLICIES.known():
                names = ", ".join(sorted({*self._members, *POLICIES.known()}))
                raise ValueError(
                    f"there is no policy {quote(name)}: configure it under policies:, or use one of {names}"
                )
            self._members[name] = _open(name, PolicySettings(name))
        return self._members[name]


def parse_items(text: str) -> Iterator[tuple[str, str]]:
    """The names and arguments of a policy string.

    >>> list(parse_items('orders-json, require_header:trace-id, cel:"size(value.items) < 3, or so"'))
    [('orders-json', ''), ('require_header', 'trace-id'), ('cel', 'size(value.items) < 3, or so')]

    Raises:
        ValueError: it is no such list; says what is.
    """
    at = 0
    while at < len(text) or at == 0:
        item = _ITEM.match(text, at)
        if item is None:
            raise ValueError(f"{quote(text)} is not understood from character {at + 1} on: {SYNTAX}")
        quoted, at = item["quoted"], item.end()
        yield item["name"], (item["bare"] or "").rstrip() if quoted is None else quoted.replace('""', '"')


def _open(name: str, setting: PolicySettings) -> _Member:
    policy, hints = POLICIES.open(name, setting.type, setting.class_path, setting.settings)
    if fault := _find_fault(policy, hints):
        raise ValueError(f"policy {name}: {setting.type}: {fault}")
    return _Member(name, policy, setting.fail_open, hints)


def _find_fault(policy: RecordValidationPolicy, hints: object) -> str | None:
    """What is missing in a policy that would show only with the first record, or never."""
    others = [getattr(policy, form, None) for form in ("validate_batch", "validate_header")]
    if type(policy).validate is RecordValidationPolicy.validate and not any(others):
        return "has no validate()"
    if not isinstance(hints, Hints):
        return "hints() gave no Hints"
    if min(hints.access_key_bytes, hints.access_value_bytes) < ALL:
        return "hints() asks for a negative number of bytes; ALL is -1"
    return None
