"""The sections of docs/how-to/sizing.md that are figures, written between its markers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from pricing import model
from pricing.deployment import BUSY, EXAMPLE, Needs, figure, needs
from pricing.results import Checked, Results

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "sizing.md"
COMMAND: Final = "written by `make bench-sizing`"
KINDS: Final[tuple[tuple[model.Unit, str], ...]] = (("request", "request"), ("record", "record"), ("MB", "MB"))


def begin(name: str) -> str:
    return f"<!-- {name}: {COMMAND} -->\n"


def end(name: str) -> str:
    return f"<!-- end of {name} -->\n"


def section(text: str, name: str) -> str:
    """What is between the markers of a section."""
    return text.partition(begin(name))[2].partition(end(name))[0]


def written(text: str, results: Results) -> str:
    """The page with the figures of these results."""
    for name, content in sections(results).items():
        before, found, rest = text.partition(begin(name))
        assert found, f"{PAGE.name} has no section {name}"
        text = f"{before}{found}\n{content}\n{end(name)}{rest.partition(end(name))[2]}"
    return text


def sections(results: Results) -> dict[str, str]:
    return {
        "machine": machine(results),
        "prices": prices(results.prices),
        "connections": connections(results),
        "memory": memory(results),
        "check": checked(results),
        "example": example(results),
    }


def machine(results: Results) -> str:
    spread = median(one.spread for one in results.fitted)
    repeated = f" In half of the cases the largest and the smallest differ by {spread:.0%} or less." if spread else ""
    said = f"{results.about}{repeated}\n"
    if not results.is_provisional:
        return said
    quick = ", and the run was a quick one" if results.is_quick else ""
    taken = f"**Provisional**: other programs took {results.others:.0%} of a core{quick}."
    return f"{taken} Trust no figure within a factor of two.\n\n{said}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    rules = ["---"] * left + ["---:"] * (len(heads) - left)
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, rules, *rows))


def prices(found: model.Prices) -> str:
    rows = []
    for step, units in model.STEPS.items():
        cells = [figure(found[step, unit]) if unit in units else "" for unit, _ in KINDS]
        of = "" if "MB" not in units else "as sent" if step in model.ON_WIRE else "decompressed"
        rows.append([step, *cells, of])
    return table(["step", "a request", "a record", "a MB", "MB"], rows)


def connections(results: Results) -> str:
    idle = f"An idle process takes {figure(results.memory.idle_cpu_us)} us in a second"
    rows = [[name if name != model.RELAY else "no TLS", figure(us)] for name, us in results.connection_us.items()]
    return (
        f"{idle}, an idle connection {figure(results.memory.connection_cpu_us)}.\n"
        f"A [large message](large-messages.md) that is split takes {figure(results.memory.large_cpu_us)} us a MB, "
        "all included.\n\n"
        f"{table(['a new connection, with its connection to a broker and one request', 'us'], rows)}"
    )


def memory(results: Results) -> str:
    found = results.memory
    rows = [
        ["a process", f"{found.process_mb:.0f} MB"],
        ["two workers and their supervisor", f"{found.with_workers_mb:.0f} MB"],
        ["an idle connection", f"{found.idle_kb:.0f} KB"],
        ["an idle connection with TLS on both sides", f"{found.idle_tls_kb:.0f} KB"],
        ["more for a connection with a request of 100 KB in flight, relayed", f"{found.busy_kb:.0f} KB"],
        ["the same, lz4 and checked by a policy", f"{found.busy_checked_kb:.0f} KB"],
        ["more while messages of 8 MB are split, one at a time", f"{found.large_mb:.0f} MB"],
    ]
    return table(["what", "memory"], rows)


def checked(results: Results) -> str:
    worst = max(results.fitted, key=lambda one: abs(one.error))
    errors = median(abs(one.error) for one in results.fitted)
    said = (
        f"Of the {len(results.fitted)} runs that the prices are fitted to, half are within {errors:.0%}; "
        f"the worst is {worst.error:+.0%} ({worst.title}).\n"
    )
    heads = ["run that was not fitted", "measured", "formula", "error", "spread"]
    return f"{said}\n{table(heads, list(_rows(results.held_out)))}"


def _rows(runs: Sequence[Checked]) -> Iterator[list[str]]:
    for one in runs:
        cells = [figure(one.measured_us), figure(one.predicted_us), f"{one.error:+.0%}", f"{one.spread:.0%}"]
        yield [one.title, *cells]


def example(results: Results) -> str:
    found = needs(EXAMPLE, results.prices, results.memory, results.connection_us, results.margin)
    rows = [[line.text, figure(line.cpu_us)] for line in found.lines]
    rows.append(["**sum: cores**", f"**{found.cores:.2f}**"])
    return f"{table(['term, in a second', 'us'], rows)}\n{conclusion(found)}"


def conclusion(found: Needs) -> str:
    one = EXAMPLE
    workers = f"{found.workers} worker{'s' if found.workers > 1 else ''}"
    in_flight = f"with a request in flight on each of the {one.connections} connections"
    expected = f"{found.cores * found.margin:.2f} with a margin of {found.margin:.1f}"
    why = "[runs to which nothing was fitted](#how-good-the-formula-is) took up to that many times the formula's"
    return f"""* **Cores**: {found.cores:.2f} by the formula, {expected}: {why}.
* **Workers**: at most {BUSY:.0%} of a core for each, that is {workers}.
* **Memory**: {found.memory_mb:.0f} MB {in_flight}; the limit is twice that, at least 256 MiB.
* **After a restart** {one.connections} connections take {found.restart_s:.1f} s of CPU for their handshakes.

<!-- values -->
```yaml
config:
  bootstrap_servers: [kafka-1.kafka.svc:9092]
  workers: {found.workers}
resources:
  requests: {{cpu: {found.cpu_request}, memory: {found.memory_request_mib}Mi}}
  limits: {{memory: {found.memory_limit_mib}Mi}}
```
"""
