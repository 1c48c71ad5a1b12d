"""Kafka's `ssl.principal.mapping.rules` (KIP-371): from the subject of a certificate to the name of a user.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),.*$/$1/L, DEFAULT

The first rule whose pattern matches the whole subject applies; `L` and `U` make the result lower or upper case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

UNKNOWN_LOGIN = "Unknown:login"  # who has logged in with a name that only the broker knows
_PART = r"(?:\\.|[^\\/])*"
_RULE = re.compile(rf"(DEFAULT)|RULE:({_PART})/({_PART})/([LU]?)")
_ANY = rf"(DEFAULT|RULE:{_PART}/{_PART}/[LU]?)"
PATTERN = rf"^\s*{_ANY}(\s*,\s*{_ANY})*\s*$"  # of a whole text, for the schema
_REFERENCE = re.compile(r"\$(\d)")


class RulesError(ValueError):
    """A text that is no list of rules; one line with the remedy."""


@dataclass(frozen=True, slots=True)
class PrincipalRule:
    """One rule; without a pattern the subject stays as it is (`DEFAULT`)."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """The name; None: the rule is not for this subject."""
        if self.pattern is None:
            return subject
        if (found := self.pattern.fullmatch(subject)) is None:
            return None
        name = _REFERENCE.sub(lambda reference: found[int(reference[1])] or "", self.replacement)
        return {"L": name.lower, "U": name.upper}.get(self.case, lambda: name)()


DEFAULT = (PrincipalRule(),)


def parse_rules(text: str) -> tuple[PrincipalRule, ...]:
    """The rules of a text, separated by commas. Raises RulesError."""
    if re.fullmatch(PATTERN, text) is None:
        raise RulesError(
            "write rules RULE:pattern/replacement/, with L or U after them, or DEFAULT, separated by commas"
        )
    found = _RULE.finditer(text)
    return tuple(PrincipalRule() if one[1] else _rule(*one.group(2, 3, 4)) for one in found)


def _rule(pattern: str, replacement: str, case: str) -> PrincipalRule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise RulesError(f"the pattern {pattern!r} cannot be used: {error}") from None
    highest = max((int(number) for number in _REFERENCE.findall(replacement)), default=0)
    if highest > compiled.groups:
        raise RulesError(f"{replacement!r} refers to group {highest}, and the pattern has {compiled.groups}")
    return PrincipalRule(compiled, replacement, case)


def principal_of(subject: str, rules: tuple[PrincipalRule, ...]) -> str | None:
    """`User:` and the name that the first fitting rule makes; None: none fits, and Kafka refuses the client."""
    names = (rule.apply(subject) for rule in rules)
    name = next((name for name in names if name is not None), None)
    return None if name is None else f"User:{name}"
