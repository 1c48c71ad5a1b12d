"""Which modules are compiled, and whether those in use are.

Each of them is one Python file with a neighbouring ``.pxd`` that gives C types to the same text; where it was not
compiled it runs as it is. `setup.py` reads the list, the command line tells the answer.
docs/decisions/0007-compiled-modules.md
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

MODULES = (
    "kafka_sidecar.codec.cursor",
    "kafka_sidecar.codec.envelope",
    "kafka_sidecar.codec.glance",
    "kafka_sidecar.codec.json.records",
    "kafka_sidecar.codec.json.syntax",
    "kafka_sidecar.codec.records.batch",
    "kafka_sidecar.codec.records.batch_header",
    "kafka_sidecar.codec.records.check",
    "kafka_sidecar.codec.records.edit",
    "kafka_sidecar.codec.records.header",
    "kafka_sidecar.codec.records.lz4_blocks",
    "kafka_sidecar.codec.records.output_buffer",
    "kafka_sidecar.codec.records.record",
    "kafka_sidecar.codec.records.records",
    "kafka_sidecar.codec.scan",
)


def is_compiled(module: str) -> bool:
    """Whether importing this module gives the compiled one. Looks without importing it or its package."""
    inside = module.removeprefix(f"{__package__}.").split(".")[:-1]
    folder = str(Path(__file__).parent.joinpath(*inside))
    found = next(filter(None, (finder.find_spec(module, [folder]) for finder in sys.meta_path)), None)
    return found is not None and isinstance(found.loader, ExtensionFileLoader)


def in_use() -> str:
    """``compiled``, ``python``, or ``partly compiled`` where only some of the modules could be."""
    compiled = {is_compiled(module) for module in MODULES}
    return "partly compiled" if len(compiled) > 1 else "compiled" if True in compiled else "python"
