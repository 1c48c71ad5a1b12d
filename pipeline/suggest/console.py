"""A proposal on the terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kafka_sidecar.pipeline.suggest.json_schema import Field
from kafka_sidecar.pipeline.suggest.proposal import Proposal
from kafka_sidecar.pipeline.suggest.summary import Tally


def show_proposal(proposal: Proposal, seconds: float, console: Console) -> None:
    """What holds, with counts; the fields of documents; the policies that say so."""
    rate = proposal.records / seconds if seconds else 0
    console.print(
        f"{proposal.topic}: {proposal.records:,} records read in {seconds:.1f} s, {rate:,.0f} records/s",
        highlight=False,
    )
    table = Table("of", "what holds", "otherwise, first at partition:offset", box=box.SIMPLE)
    for one in proposal.findings:
        table.add_row(one.about, _plain(one.text), _plain(exceptions_line(one.exceptions)))
    console.print(table)
    for part, fields in proposal.fields.items():
        console.print(_fields(part, fields))
    for limit in proposal.limits:
        console.print(f"limit: {_plain(limit)}", highlight=False)


def exceptions_line(exceptions: dict[str, Tally]) -> str:
    """How many of which form, and where the first ones are.

    >>> exceptions_line({"text": Tally(2, [(0, 17), (1, 4)])})
    'text 2: 0:17, 1:4'
    """
    return "; ".join(
        f"{name} {tally.count:,}: {', '.join(f'{partition}:{offset}' for partition, offset in tally.first)}"
        for name, tally in sorted(exceptions.items())
    )


def _fields(part: str, fields: list[Field]) -> Table:
    table = Table("field", "there", "types", "of all of them", title=part, title_justify="left", box=box.SIMPLE)
    for one in fields:
        there = "always" if one.count == one.of else f"{one.count:,} of {one.of:,}"
        types = ", ".join(name if len(one.types) == 1 else f"{name} {count:,}" for name, count in one.types.items())
        table.add_row(_plain(one.path), there, types, _plain(one.says))
    return table


def _plain(text: str) -> str:
    """Names of fields and headers are contents of records: no markup, and nothing that a terminal obeys."""
    return escape("".join(one if one.isprintable() else "?" for one in text))
