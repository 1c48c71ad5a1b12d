"""What strings have in common: few values, a form that is certain, a template, lengths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_sidecar.pipeline.suggest.spread import Spread

MAX_VALUES = 32  # different ones that are remembered
MAX_VALUE = 64  # characters of one
MAX_TEMPLATES = 8
MAX_TEMPLATE = 48  # characters of a string that has one
SOME = 20  # different values of which a form that is not certain by itself is believed

# From the most particular to the most general; RE2 and ECMA 262 read these alike.
PATTERNS = {
    "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "date-time": "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})",
    "local-date-time": "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?",
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "ipv4": "[0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}",
    "digits": "[0-9]+",
    "hex": "[0-9a-f]+",
    "upper-hex": "[0-9A-F]+",
    "upper": "[A-Z]+",
    "lower": "[a-z]+",
    "uri": "https?://[!-~]+",
    "email": "[0-9A-Za-z._%+-]+@[0-9A-Za-z-]+([.][0-9A-Za-z-]+)+",
}
# What JSON Schema calls them.
FORMATS = {"uuid": "uuid", "date-time": "date-time", "date": "date", "ipv4": "ipv4", "uri": "uri", "email": "email"}
# Nothing else looks like these, so a few are enough; and their values change, however few they were.
PARTICULAR = frozenset({"uuid", "date-time", "local-date-time", "date", "ipv4", "uri", "email"})
MAX_FORM = 512  # characters of a string that is looked at for one
MIN_HEX = 8  # characters, or words would be hexadecimal numbers
_ALSO = {"digits": ("hex", "upper-hex"), "lower": ("hex",), "upper": ("upper-hex",)}
_FORM = re.compile("|".join(f"(?P<{name.replace('-', '_')}>{text})" for name, text in PATTERNS.items()))
_WHOLE = {name: re.compile(text) for name, text in PATTERNS.items()}
_FORMS = {name.replace("-", "_"): name for name in PATTERNS}
_DIGITS = re.compile("[0-9]+")
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$/])")
_MARK = "\0"  # of a run of digits


def forms_of(text: str) -> tuple[str, ...]:
    """All forms that a string has.

    >>> forms_of("2026-11-05"), forms_of("00ff00ff"), forms_of("two words"), forms_of("12345678")
    (('date',), ('hex',), (), ('digits', 'hex', 'upper-hex'))
    """
    found = _FORM.fullmatch(text) if len(text) <= MAX_FORM else None
    if found is None or found.lastgroup is None:
        return ()
    name = _FORMS[found.lastgroup]
    if name in ("hex", "upper-hex", "digits", "lower", "upper"):
        return _simple_forms(text, name)
    return (name,)


def _simple_forms(text: str, name: str) -> tuple[str, ...]:
    if name in ("hex", "upper-hex") and text.isalpha():
        name = "lower" if name == "hex" else "upper"
    if name in ("hex", "upper-hex"):
        return (name,) if len(text) >= MIN_HEX else ()
    if len(text) < MIN_HEX:
        return (name,)
    return (name, *(other for other in _ALSO[name] if _WHOLE[other].fullmatch(text)))


def template_of(text: str) -> str:
    """The string with a mark in place of each run of digits.

    >>> template_of("order-17")
    'order-\\x00'
    """
    return _DIGITS.sub("\0", text)


@dataclass(slots=True)
class Strings:
    """A summary of strings. Their values are remembered while there are few; else what they have in common."""

    values: dict[str, int] | None = field(default_factory=dict)
    lengths: Spread = field(default_factory=Spread)
    forms: dict[tuple[str, ...], int] = field(default_factory=dict)  # how many have these and no others
    templates: dict[str, int] | None = field(default_factory=dict)

    def add(self, text: str, times: int = 1) -> None:
        values = self.values
        if values is not None:
            if text in values:
                values[text] += times
                return
            if len(values) < MAX_VALUES and len(text) <= MAX_VALUE:
                values[text] = times
                return
            self._forget_values()
        self._fold(text, times)

    def merge(self, other: Strings) -> None:
        """``other`` is not to be used after this."""
        if self.values is not None and other.values is not None:
            for text, times in other.values.items():
                self.add(text, times)
            return
        self._forget_values()
        other._forget_values()
        self.lengths.merge(other.lengths)
        for forms, times in other.forms.items():
            self.forms[forms] = self.forms.get(forms, 0) + times
        if self.templates is not None and other.templates is not None:
            for template, times in other.templates.items():
                self._add_template(template, times)
        else:
            self.templates = None

    def _forget_values(self) -> None:
        values, self.values = self.values, None
        for text, times in (values or {}).items():
            self._fold(text, times)

    def _fold(self, text: str, times: int) -> None:
        self.lengths.add(len(text), times)
        forms = forms_of(text)
        self.forms[forms] = self.forms.get(forms, 0) + times
        if self.templates is not None:
            if len(text) > MAX_TEMPLATE or _MARK in text:
                self.templates = None
            else:
                self._add_template(template_of(text), times)

    def _add_template(self, template: str, times: int) -> None:
        if self.templates is None:
            return
        self.templates[template] = self.templates.get(template, 0) + times
        if len(self.templates) > MAX_TEMPLATES:
            self.templates = None

    def folded(self) -> Strings:
        """The same with what the values have in common in place of the values."""
        if self.values is None:
            return self
        found = Strings(dict(self.values))
        found._forget_values()
        return found

    @property
    def count(self) -> int:
        return sum(self.forms.values()) if self.values is None else sum(self.values.values())

    def few_values(self, tolerance: float, evidence: int) -> list[str] | None:
        """The values, if they are few and each is there often; without the few that the tolerance omits."""
        if not self.values:
            return None
        total = self.count
        kept = _without_rare(self.values, tolerance * total)
        if len(kept) > MAX_VALUES // 2 or total < max(evidence, SOME * len(kept)) or min(kept.values()) < 2:
            return None
        own = Strings(kept).folded()
        return None if own.form(tolerance) in PARTICULAR else sorted(kept)

    def form(self, tolerance: float) -> str | None:
        """The most particular form that they have, if that is certain."""
        whole, total = self.folded(), self.count
        names = PATTERNS if self._are_many() else [name for name in PATTERNS if name in PARTICULAR]
        for name in names:
            others = sum(times for forms, times in whole.forms.items() if name not in forms)
            if others < total and others <= tolerance * total:
                return name
        return None

    def _are_many(self) -> bool:
        return self.values is None or len(self.values) >= SOME

    def template(self, tolerance: float) -> str | None:
        """A pattern of few texts with digits at some places, one of which they all match."""
        templates = self.folded().templates
        if not templates or not self._are_many():
            return None
        kept = _without_rare(templates, tolerance * self.count)
        if any(_MARK not in one or one == _MARK or times < SOME for one, times in kept.items()):
            return None
        found = sorted(_SPECIAL.sub(r"\\\1", one).replace(_MARK, "[0-9]+") for one in kept)
        return found[0] if len(found) == 1 else f"({'|'.join(found)})"

    def pattern(self, tolerance: float) -> tuple[str | None, str | None]:
        """The form's name, and a pattern for the whole text; None for each that there is not."""
        form = self.form(tolerance)
        if form is not None:
            least, most = self.folded().lengths.ends(tolerance)
            text = PATTERNS[form]
            return form, f"{text[:-1]}{{{most}}}" if text.endswith("]+") and least == most and form != "uri" else text
        return None, self.template(tolerance)


def _without_rare(counts: Mapping[str, int], allowed: float) -> dict[str, int]:
    """Without the rarest, as long as they are no more than that together; never without all."""
    in_order = sorted(counts.items(), key=lambda one: (one[1], one[0]))
    while len(in_order) > 1 and in_order[0][1] <= allowed:
        allowed -= in_order.pop(0)[1]
    return dict(in_order)
