"""The modules that can be compiled, and whether they are.

Each is one Python file with a ``.pxd`` beside it that declares C types for the same code; if it is not compiled, the
Python file is used. `setup.py` reads the list, the command line prints the state.
docs/decisions/0007-compiled-modules.md
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

MODULES = (
    "kafka_sidecar.audit.counters",
    "kafka_sidecar.audit.event_counters",
    "kafka_sidecar.audit.memory",
    "kafka_sidecar.audit.tally",
    "kafka_sidecar.codec.crc_parts",
    "kafka_sidecar.codec.cursor",
    "kafka_sidecar.codec.envelope",
    "kafka_sidecar.codec.fetch_counts",
    "kafka_sidecar.codec.fetch_positions",
    "kafka_sidecar.codec.json.syntax",
    "kafka_sidecar.codec.large_bytes",
    "kafka_sidecar.codec.produce_counts",
    "kafka_sidecar.codec.record_sizes",
    "kafka_sidecar.codec.records.batch",
    "kafka_sidecar.codec.records.edit",
    "kafka_sidecar.codec.records.lz4_blocks",
    "kafka_sidecar.codec.records.output_buffer",
    "kafka_sidecar.codec.records.record",
    "kafka_sidecar.codec.records.records",
    "kafka_sidecar.codec.records_walk",
    "kafka_sidecar.codec.scan",
    "kafka_sidecar.proxy.features.auditing.connection",
    "kafka_sidecar.proxy.features.auditing.fetch",
    "kafka_sidecar.proxy.features.auditing.produce",
    "kafka_sidecar.proxy.features.rate_limits.buckets",
    "kafka_sidecar.proxy.relay.watch",
    "kafka_sidecar.schemas.avro.walk",
    "kafka_sidecar.schemas.ids",
    "kafka_sidecar.schemas.protobuf.walk",
)


def is_compiled(module: str) -> bool:
    """Whether importing this module gives the compiled one. Does not import it or its package."""
    inside = module.split(".")[1:-1]
    folder = str(Path(__file__).parents[1].joinpath(*inside))
    found = next(filter(None, (finder.find_spec(module, [folder]) for finder in sys.meta_path)), None)
    return found is not None and isinstance(found.loader, ExtensionFileLoader)


def in_use() -> str:
    """``compiled``, ``python``, or ``partly compiled`` if only some of the modules are."""
    compiled = {is_compiled(module) for module in MODULES}
    return "partly compiled" if len(compiled) > 1 else "compiled" if True in compiled else "python"
