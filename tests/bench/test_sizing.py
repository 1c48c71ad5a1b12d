"""The sizing page: its formula is fitted rightly, its example follows from its prices, and the bench runs."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pricing import deployment, model, page
from pricing.model import Observation, Traffic
from pricing.results import Results

BENCH = Path(__file__).parents[2] / "bench" / "sizing.py"
RESULTS = Results.read()
TEXT = page.PAGE.read_text(encoding="utf-8")
CELL = re.compile(r"^\| (?P<cells>.+) \|$", re.MULTILINE)
TERM = re.compile(
    r"(?P<api>Produce|Fetch): (?P<step>.+), (?P<amount>[\d,]+) (?P<unit>request|record|MB)s? x (?P<price>\S+)"
)


def rows(section: str) -> list[list[str]]:
    """The cells of the tables of a section, without their heads."""
    found = [match["cells"].split(" | ") for match in CELL.finditer(page.section(TEXT, section))]
    return [cells for cells in found if not cells[0].startswith("---")][1:]


def number(text: str) -> float:
    return float(text.strip("*").replace(",", ""))


@pytest.mark.parametrize("section", page.sections(RESULTS))
def test_each_section_of_the_page_is_that_of_the_measured_figures(section: str) -> None:
    assert page.section(TEXT, section) == f"\n{page.sections(RESULTS)[section]}\n"


def test_the_example_is_the_sum_of_its_terms_and_these_are_the_prices_of_the_page() -> None:
    prices = {cells[0]: dict(zip(("request", "record", "MB"), cells[1:4], strict=True)) for cells in rows("prices")}
    *terms, (name, total) = rows("example")
    assert name == "**sum: cores**"
    assert sum(number(us) for _, us in terms) / 1e6 == pytest.approx(number(total), abs=0.01)
    found = [(TERM.fullmatch(text), number(us)) for text, us in terms[2:]]
    assert {match["step"] for match, _ in found if match} >= {"relay", "json", "decompress lz4", "TLS to brokers"}
    for match, us in found:
        assert match is not None
        price = number(prices[match["step"]][match["unit"]])
        assert number(match["price"]) == pytest.approx(price, rel=0.01, abs=0.005)
        assert number(match["amount"]) * price == pytest.approx(us, rel=0.02, abs=1)


def test_the_example_has_the_traffic_that_the_page_describes() -> None:
    one = deployment.EXAMPLE
    said = " ".join(TEXT.partition("## An example\n")[2].partition("<!--")[0].split())
    assert f"{one.mb_s:.0f} MB/s of JSON in records of {one.record_bytes // 1000} KB" in said
    assert f"in requests of {one.request_bytes // 1000} KB" in said
    assert f"{one.connections} connections" in said
    assert (one.codec, one.ratio, one.readers) == ("lz4", 0.5, 1)
    assert one.features == {model.JSON, model.TLS_CLIENTS, model.TLS_BROKERS}


def test_a_figure_that_changes_makes_the_page_wrong() -> None:
    prices = {**RESULTS.prices, (model.RELAY, "request"): 1234.5}
    changed = page.sections(replace(RESULTS, prices=prices))
    assert changed["prices"] != page.sections(RESULTS)["prices"]
    assert changed["example"] != page.sections(RESULTS)["example"]
    assert page.written(TEXT, RESULTS) == TEXT
    assert page.written(TEXT, replace(RESULTS, prices=prices)) != TEXT


def test_figures_of_a_busy_machine_are_called_provisional() -> None:
    quiet = replace(RESULTS, others=0.01, is_quick=False)
    assert "Provisional" not in page.machine(quiet)
    assert "Provisional" in page.machine(replace(quiet, others=0.5))
    assert "Provisional" in page.machine(replace(quiet, is_quick=True))


def test_the_prices_of_exact_runs_are_found_again() -> None:
    chance = random.Random(1)
    true: dict[model.Price, float] = {
        (model.RELAY, "request"): 30.0, (model.RELAY, "MB"): 400.0,
        (model.LOOK, "request"): 25.0, (model.LOOK, "MB"): 0.0,
        (model.READ["lz4"], "MB"): 500.0, (model.JSON, "record"): 0.1, (model.JSON, "MB"): 1000.0,
    }  # fmt: skip
    observations = []
    for _ in range(60):
        records, size = chance.choice([1, 10, 100]), chance.choice([100, 1000, 10_000])
        plain = records * size / 1e6
        codec = chance.choice(["none", "lz4"])
        features = frozenset(chance.choice([[], [model.LIMITS], [model.JSON]]))
        traffic = Traffic(1, records, plain / (2 if codec == "lz4" else 1), plain, codec, features)
        observations.append(Observation("", (traffic,), model.cpu_us(true, traffic)))
    found = model.fit(observations)
    assert set(found) == set(true)
    assert all(found[name] == pytest.approx(price, rel=0.02, abs=0.5) for name, price in true.items())


def test_no_price_is_negative_whatever_was_measured() -> None:
    slower = [
        Observation("", (Traffic(1, 1, 0.001, 0.001),), 100.0),
        Observation("", (Traffic(1, 1, 0.001, 0.001, steps=frozenset({model.AUDIT})),), 50.0),
    ]
    assert min(model.fit(slower).values()) >= 0


def test_decompression_is_paid_only_where_records_are_read_and_compression_where_they_change() -> None:
    def steps(*features: str) -> set[str]:
        return Traffic(1, 1, 1, 2, "zstd", frozenset(features)).all_steps()

    assert steps() == {model.RELAY}
    assert steps(model.LIMITS) == {model.RELAY, model.LOOK}
    assert steps(model.JSON) == {model.RELAY, model.LOOK, model.READ["zstd"], model.JSON}
    assert steps(model.ADD_HEADER) == {
        model.RELAY, model.LOOK, model.READ["zstd"], model.ADD_HEADER, model.WRITE["zstd"],
    }  # fmt: skip


def test_the_margin_covers_each_run_to_which_nothing_was_fitted() -> None:
    assert all(one.measured_us <= one.predicted_us * RESULTS.margin * 1.001 for one in RESULTS.held_out)
    low = replace(RESULTS, held_out=tuple(replace(one, measured_us=1.0) for one in RESULTS.held_out))
    assert low.margin == 1.0
    found = deployment.needs(deployment.EXAMPLE, RESULTS.prices, RESULTS.memory, RESULTS.connection_us, 2.0)
    assert float(found.cpu_request.removesuffix("m")) == pytest.approx(2000 * found.cores, abs=50)


def test_memory_grows_with_connections_and_workers_and_the_limit_is_twice_the_request() -> None:
    few = deployment.needs(deployment.EXAMPLE, RESULTS.prices, RESULTS.memory, RESULTS.connection_us, RESULTS.margin)
    many = replace(deployment.EXAMPLE, connections=30_000)
    more = deployment.needs(many, RESULTS.prices, RESULTS.memory, RESULTS.connection_us, RESULTS.margin)
    assert more.memory_mb - few.memory_mb > 29_000 * RESULTS.memory.idle_tls_kb / 1e3
    assert more.memory_limit_mib == 2 * more.memory_request_mib
    heavy = replace(deployment.EXAMPLE, mb_s=20 * deployment.EXAMPLE.mb_s)
    assert (
        deployment.needs(heavy, RESULTS.prices, RESULTS.memory, RESULTS.connection_us, RESULTS.margin).workers
        > few.workers
    )


@pytest.mark.program
def test_a_short_run_writes_the_figures_and_the_page(tmp_path: Path) -> None:
    kept, markdown = tmp_path / "sizing.json", tmp_path / "sizing.md"
    markdown.write_text(TEXT, encoding="utf-8")
    words = ["--reps", "1", "--seconds", "0.05", "--json", str(kept), "--markdown", str(markdown)]
    run = subprocess.run([sys.executable, BENCH, *words], capture_output=True, text=True, timeout=550)
    assert run.returncode == 0, run.stderr
    found = Results.read(kept)
    assert set(found.prices) >= {(step, unit) for step, units in model.STEPS.items() for unit in units}
    assert min(found.prices.values()) >= 0
    assert len(found.held_out) >= 6
    assert all(one.measured_us > 0 and one.predicted_us > 0 for one in found.held_out)
    assert page.written(TEXT, found) == markdown.read_text(encoding="utf-8")
