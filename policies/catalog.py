"""The policies of one configuration, and the plans that topics' policy strings are compiled to.

A string is a list of ``name`` or ``name:argument``, separated by commas. An argument with a comma, or spaces at its
ends, is put in double quotes; a quote in it is doubled. A facade class (KIP-940's
``record.validation.policy.class.name``) gets the whole string.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.plugins.settings import quote
from kafka_sidecar.plugins.values import Histogram
from kafka_sidecar.policies.contract import ALL, Hints, RecordValidationPolicy
from kafka_sidecar.policies.plans import OnFailure, Plan, Rule, ignore_failure
from kafka_sidecar.policies.registry import POLICIES

MAX_CACHED_PLANS = 1024  # owners of topics choose the strings
MAX_RULES_PER_TOPIC = 100
MAX_EXPLAINED = 10  # unknown policies of a string, in its message
MAX_COMPARED_CHARS = 100  # of a name
# Possessive quantifiers (*+) do not backtrack, or a text of many spaces would take minutes.
_ITEM = re.compile(
    r"""\s*+ (?P<name>[\w-]++) \s*+
    (?: : \s*+ (?: "(?P<quoted> (?: [^"] | "" )*+ )" \s*+ | (?P<bare> [^",][^,]*+ )? ) )?+
    (?: , | \Z )""",
    re.VERBOSE,
)
SYNTAX = "write name or name:argument, separated by commas, such as json, require_header:trace-id"
# Inside YAML's own single quotes, as it is written in the file.
QUOTING = """; an argument with a comma is put in double quotes: 'cel:"value.a in [1,2]"'"""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """One policy, as configured in the file."""

    type: str  # name of a built-in or an entry point, or module:Class
    class_path: str | None = None  # folders, zips and wheels, separated by ":"
    fail_open: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # for the policy's configure()


@dataclass(frozen=True, slots=True)
class _OpenPolicy:
    """A policy that has been configured."""

    name: str
    policy: RecordValidationPolicy
    fail_open: bool
    hints: Hints
    settings: Mapping[str, Any]
    calls: Histogram = field(default_factory=Histogram)

    @calls_plug_in(lambda of: Call("policy", of["self"].name, "check"))
    def rule(self, text: str) -> Rule:
        self.policy.check(text)
        return Rule(self.name, self.policy, text, self.fail_open, self.hints, self.settings, self.calls)


class PolicyCatalog:
    """Configured policies by name, and those that need no configuration."""

    def __init__(
        self,
        settings: Mapping[str, PolicySettings],
        facade: PolicySettings | None = None,
        report: OnFailure = ignore_failure,
    ) -> None:
        """Load and configure everything that the configuration names.

        Args:
            settings: the policies, by the names that topics use.
            facade: if given, the one policy that gets every topic's string.
            report: called for each failure of a policy that fails open.

        Raises:
            ValueError: a class or a setting is invalid; one line with the policy's name and the remedy.
        """
        self._report = report
        self._policies: dict[str, _OpenPolicy] = {}
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._facade: _OpenPolicy | None = None
        try:
            for name, setting in settings.items():
                self._policies[name] = _open(name, setting)
            if facade is not None:
                self._facade = _open(re.split("[:.]", facade.type)[-1], facade)
        except ValueError:
            self.close()
            raise

    def plan(self, text: str) -> Plan:
        """The plan of a topic's ``record.validation.policy``; equal texts share one while it is in use.

        Raises:
            ValueError: the text is invalid, names an unknown policy or gives one an invalid argument; names the remedy.
        """
        if text not in self._plans:
            self._plans[text] = self._compile(text)
            while len(self._plans) > MAX_CACHED_PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(text)
        return self._plans[text]

    @property
    def calls(self) -> Mapping[str, Histogram]:
        """How long each policy has taken for a batch, by name."""
        facade = [self._facade] if self._facade is not None else []
        return {opened.name: opened.calls for opened in [*self._policies.values(), *facade]}

    @property
    def names(self) -> list[str]:
        """Of the policies that are open; a built-in without settings is from its first use on."""
        return sorted([*self._policies, *([self._facade.name] if self._facade is not None else [])])

    def files(self) -> set[Path]:
        """All files and folders that policies have read."""
        opened = [*self._policies.values(), *([self._facade] if self._facade else [])]
        return {path for one in opened for path in one.policy.files()}

    def close(self) -> None:
        """Close every policy and report those that fail. No plan may be used afterwards."""
        for opened in [*self._policies.values(), *([self._facade] if self._facade else [])]:
            try:
                opened.policy.close()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the others must be closed too
                self._report(opened.name, error)

    def _compile(self, text: str) -> Plan:
        if self._facade is not None:
            return Plan((self._rule(self._facade, text),), self._report)
        named = list(parse_items(text))
        if len(named) > MAX_RULES_PER_TOPIC:
            raise ValueError(f"names {len(named)} policies: a topic can have at most {MAX_RULES_PER_TOPIC}")
        if unknown := [name for name, _ in named if not self._is_known(name)]:
            raise ValueError(self._explain_unknown(unknown))
        return Plan(tuple(self._rule(self._policy(name), argument) for name, argument in named), self._report)

    def _is_known(self, name: str) -> bool:
        """Configured, built in or an entry point: a topic's string must not make the sidecar import other modules."""
        return name in self._policies or name in POLICIES.built_in or name in POLICIES.known()

    def _explain_unknown(self, unknown: Sequence[str]) -> str:
        """All of them, each with what may be meant."""
        names = sorted({*self._policies, *POLICIES.known()})
        some = list(dict.fromkeys(unknown))[:MAX_EXPLAINED]
        nearest = {name: get_close_matches(name[:MAX_COMPARED_CHARS], names, n=1) for name in some}
        each = (quote(name) + (f" (did you mean {likely[0]}?)" if likely else "") for name, likely in nearest.items())
        noun = "policy" if len(nearest) == 1 else "policies"
        return f"unknown {noun} {', '.join(each)}: configure under policies:, or use one of {', '.join(names)}"

    def _rule(self, opened: _OpenPolicy, text: str) -> Rule:
        try:
            return opened.rule(text)
        except ValueError as error:
            raise ValueError(f"policy {opened.name}: {error}") from error
        except (Exception, SystemExit) as error:
            raise ValueError(f"policy {opened.name}: check() failed: {type(error).__name__}: {error}") from error

    def _policy(self, name: str) -> _OpenPolicy:
        """The policy configured by that name, or a built-in with default settings, opened on first use."""
        if name not in self._policies:
            self._policies[name] = _open(name, PolicySettings(name))
        return self._policies[name]


def parse_items(text: str) -> Iterator[tuple[str, str]]:
    """The names and arguments of a policy string.

    >>> list(parse_items('orders-json, require_header:trace-id, cel:"size(value.items) < 3, or so"'))
    [('orders-json', ''), ('require_header', 'trace-id'), ('cel', 'size(value.items) < 3, or so')]

    Raises:
        ValueError: the text is not such a list; the message shows the syntax.
    """
    at = 0
    while at < len(text) or at == 0:
        item = _ITEM.match(text, at)
        if item is None:
            remedy = SYNTAX + (QUOTING if ":" in text[:at] else "")
            raise ValueError(f"{quote(text)} is invalid at character {at + 1}: {remedy}")
        quoted, at = item["quoted"], item.end()
        yield item["name"], (item["bare"] or "").rstrip() if quoted is None else quoted.replace('""', '"')


def _open(name: str, setting: PolicySettings) -> _OpenPolicy:
    policy, hints = POLICIES.open(name, setting.type, setting.class_path, setting.settings)
    if fault := _find_fault(policy, hints):
        raise ValueError(f"policy {name}: {setting.type}: {fault}")
    return _OpenPolicy(name, policy, setting.fail_open, hints, setting.settings)


def _find_fault(policy: RecordValidationPolicy, hints: object) -> str | None:
    """A fault that would otherwise appear only with the first record, or never."""
    others = [getattr(policy, form, None) for form in ("validate_batch", "validate_header")]
    if type(policy).validate is RecordValidationPolicy.validate and not any(others):
        return "has no validate(), validate_batch() or validate_header()"
    if not isinstance(hints, Hints):
        return "hints() did not return Hints"
    if min(hints.access_key_bytes, hints.access_value_bytes) < ALL:
        return "hints() returned a negative number of bytes; use ALL for all of them"
    return None
