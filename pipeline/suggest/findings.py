"""What holds of a topic's records, as lines for people: with counts, and with where it was otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kafka_sidecar.pipeline.suggest.formats import Format
from kafka_sidecar.pipeline.suggest.json_schema import Options
from kafka_sidecar.pipeline.suggest.spread import Spread
from kafka_sidecar.pipeline.suggest.strings import Strings
from kafka_sidecar.pipeline.suggest.summary import MAX_IDS, HeaderValues, Part, Summary, Tally

_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$/])")


@dataclass(frozen=True, slots=True)
class Finding:
    """What holds of a part of the records, how many it was seen of, and where it was otherwise."""

    about: str
    text: str
    exceptions: dict[str, Tally] = field(default_factory=dict)


def describe(spread: Spread) -> str:
    """Smallest and largest, median and 99th percentile."""
    least, most = spread.ends()
    return f"{least} to {most}, half of them up to {spread.percentile(0.5)}, 99 % up to {spread.percentile(0.99)}"


def find_all(summary: Summary, formats: Mapping[str, Format], options: Options) -> Iterator[Finding]:
    """All that was found."""
    for part, whole in (("value", summary.value), ("key", summary.key)):
        yield from _part(part, whole, formats[part], options)
    for name, about in sorted(named_headers(summary.headers or {})):
        yield Finding("header", _header(name, about, summary.records))
    yield from _times(summary)
    for why, tally in sorted(summary.unread.items()):
        yield Finding("batch", f"{tally.count:,} cannot be read: {why}", {why: tally})
    if summary.deleted:
        yield Finding("offsets", f"{summary.deleted:,} were deleted before they were read")


def _part(part: str, whole: Part, found: Format, options: Options) -> Iterator[Finding]:
    counted = f"{share(found.count, found.of)}, {found.nulls:,} null"
    yield Finding(part, f"{found.text} ({counted})" if found.of else "always null", found.exceptions)
    if found.is_schema_by_id:
        yield from _ids(part, whole)
    if whole.sizes.count:
        yield Finding(part, f"{describe(whole.sizes)} bytes")
    if found.name == "text" and (pattern := whole.text.pattern(options.tolerance)[1]) is not None:
        yield Finding(part, f"matches {pattern}")


def _times(summary: Summary) -> Iterator[Finding]:
    for clock, count in sorted(summary.clocks.items()):
        yield Finding("timestamp", f"{clock}, {share(count, summary.records)}")
    if summary.untimed.count:
        yield Finding("timestamp", f"{summary.untimed.count:,} have none", {"none": summary.untimed})
    if summary.lateness.count:
        least, most = summary.lateness.ends()
        what = "their append" if set(summary.clocks) == {"LogAppendTime"} else "the newest of their batch"
        yield Finding("timestamp", f"{least} to {most} ms before {what}")


def _ids(part: str, whole: Part) -> Iterator[Finding]:
    if whole.ids is None:
        yield Finding(part, f"more than {MAX_IDS} ids of schemas")
        return
    in_order = sorted(whole.ids.items(), key=lambda one: (-one[1].count, one[0]))
    yield Finding(part, "ids of schemas: " + ", ".join(f"{name} ({tally.count:,})" for name, tally in in_order))


def _header(name: str, about: HeaderValues, records: int) -> str:
    often = "always there" if about.records == records else f"in {share(about.records, records)}"
    others = [f"{about.nulls:,} null"] if about.nulls else []
    others += [f"{about.not_text:,} not UTF-8"] if about.not_text else ["UTF-8"]
    if about.headers > about.records:
        others.append("several in a record")
    return f"{name}: {often}, {', '.join(others)}"


def share(count: int, of: int) -> str:
    """How many of how many."""
    return f"{count:,} of {of:,}"


def pattern_of(strings: Strings, options: Options) -> str | None:
    """A pattern of whole texts that is certain: few values, a form or a template."""
    values = strings.few_values(options.tolerance, options.evidence)
    if values is not None:
        return "|".join(_SPECIAL.sub(r"\\\1", one) for one in values)
    return strings.pattern(options.tolerance)[1] if strings.count else None


def named_headers(headers: Mapping[bytes, HeaderValues]) -> Iterator[tuple[str, HeaderValues]]:
    """The headers whose names can be written in a file."""
    for key, about in headers.items():
        try:
            yield key.decode(), about
        except UnicodeDecodeError:
            continue
