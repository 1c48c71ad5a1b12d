"""The cost of checking that a value is JSON, against parsers that do more, or less: for one value, and in a batch.

usage: json_syntax.py [--seconds S]

A reader that is not installed is skipped, and so is the compiled module if there is none.
How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from json_values import value

from kafka_sidecar.codec import compiled
from kafka_sidecar.codec.json import syntax
from kafka_sidecar.codec.json.syntax import find_not_json
from kafka_sidecar.codec.records import NewRecord, Records, batches, build_batch

SIZES = (100, 1 << 10, 64 << 10)  # bytes of a value
VALUES_BYTES = 1 << 20  # of all values of a size: more than a core's cache, as values come from the network
DEPTH = 64
RECORDS = 100  # of a batch
T = TypeVar("T")

Reader = Callable[[bytes], object]


def import_source() -> ModuleType:
    path = Path(str(syntax.__file__)).parent / "syntax.py"
    spec = spec_from_file_location("json_syntax_as_python", path)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checker(module: ModuleType) -> Reader:
    fault = module.find_fault
    return lambda text: fault(text, 0, len(text), DEPTH)


def raw_and_decode(msgspec: ModuleType) -> Reader:
    raw = msgspec.json.Decoder(msgspec.Raw).decode
    return lambda text: (raw(text), text.decode())


def readers() -> Iterator[tuple[str, Reader]]:
    """Every installed reader, by name."""
    if compiled.is_compiled(syntax.__name__):
        yield "json_syntax, compiled", checker(syntax)
    yield "json_syntax, Python", checker(import_source())
    others: dict[str, tuple[str, Callable[[ModuleType], Reader]]] = {
        "simdjson, parse": ("simdjson", lambda module: module.Parser().parse),
        "cysimdjson, parse": ("cysimdjson", lambda module: module.JSONParser().parse),
        "yyjson, document": ("yyjson", lambda module: module.Document),
        "msgspec, Raw: no UTF-8 check": ("msgspec", lambda module: module.json.Decoder(module.Raw).decode),
        "msgspec, Raw, and bytes.decode": ("msgspec", raw_and_decode),
        "orjson, objects": ("orjson", lambda module: module.loads),
        "json, objects": ("json", lambda module: module.loads),
    }
    for name, (module_name, reader) in others.items():
        try:
            yield name, reader(import_module(module_name))
        except ImportError:
            continue


def cpu_ns(check: Callable[[T], object], values: list[T], seconds: float) -> float:
    """CPU per value in nanoseconds: the best of the rounds over all values that fit in ``seconds``, at least three."""
    best, rounds, end = float("inf"), 0, time.monotonic() + seconds
    while rounds < 3 or time.monotonic() < end:
        began = time.thread_time_ns()
        for one in values:
            check(one)
        best = min(best, time.thread_time_ns() - began)
        rounds += 1
    return best / len(values)


def each_value(reader: Reader) -> Callable[[Records], object]:
    """A check that calls the reader for every record, as a policy does."""

    def check(records: Records) -> None:
        for record in records:
            value = record.value
            if value is not None:
                reader(value)

    return check


def records_of(values: list[bytes]) -> list[Records]:
    """Batches of a hundred records, or fewer."""
    starts = range(0, len(values), RECORDS)
    made = [build_batch([NewRecord(one) for one in values[start : start + RECORDS]]) for start in starts]
    return [batch.records() for frame in made for batch in batches(frame)]


def print_table(kind: str, costs: dict[str, dict[int, float]]) -> None:
    print(f"| {kind} | " + " | ".join(f"{size} B: ns (MB/s)" for size in SIZES) + " |")
    print("| --- |" + " ---: |" * len(SIZES))
    for name, by_size in costs.items():
        cells = (f"{cost:.0f} ({size / cost * 1e3:.0f})" for size, cost in by_size.items())
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="per reader and size; default: %(default)s")
    seconds = parser.parse_args().seconds
    chance = random.Random(1)
    values = {size: [value(size, chance) for _ in range(max(16, VALUES_BYTES // size))] for size in SIZES}
    idle = {size: cpu_ns(len, values[size], seconds / 5) for size in SIZES}  # the loop and a call
    print_table(
        "one value",
        {
            name: {size: max(1.0, cpu_ns(reader, values[size], seconds) - idle[size]) for size in SIZES}
            for name, reader in readers()
        },
    )
    held = {size: records_of(values[size]) for size in SIZES}
    checks: dict[str, Callable[[Records], object]] = {name: each_value(reader) for name, reader in readers()}
    if compiled.is_compiled(syntax.__name__):
        checks = {"json_syntax, all in one call": lambda records: find_not_json(records, False, DEPTH), **checks}
    print_table(
        "a record of a batch",
        {
            name: {size: cpu_ns(check, held[size], seconds) * len(held[size]) / len(values[size]) for size in SIZES}
            for name, check in checks.items()
        },
    )


if __name__ == "__main__":
    main()
