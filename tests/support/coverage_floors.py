"""Coverage by module: `make coverage` prints the table, and fails if a module is under its floor.

Measured are lines and branches of the unit tests on the Python sources. A floor is what was measured, rounded down:
raise it with the tests, and delete its row once the floor of all modules is reached.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FLOOR = 95  # per cent, of every module without a row
FLOORS = {
    "proxy/admin/http.py": 88,  # transports that close while a response is rendered
    "codec/cursor.py": 90,  # only compiled code reads integers byte by byte
    "proxy/__main__.py": 0,  # run as programs only, which `make programs` does: this one, `cli.main` and `cli.run`
    "proxy/cli/main.py": 80,
    "proxy/cli/run.py": 85,
    "proxy/features.py": 81,
    "proxy/nodes/endpoint_stream.py": 94,
    "proxy/relay/loop_budget.py": 90,
    "proxy/relay/prefix_memo.py": 75,
    "proxy/runtime/allocator.py": 92,
    "proxy/runtime/connection.py": 90,
    "proxy/server.py": 94,
    "proxy/workers/__main__.py": 0,  # the same for workers
    "proxy/workers/child.py": 40,
    "codec/large_bytes.py": 78,  # the rest is for the compiled build
    "large_messages/partition_log.py": 94,
    "large_messages/reading.py": 93,
    "large_messages/segment_index.py": 94,
    "proxy/cli/scram_user.py": 92,
    "proxy/large_messages/assemble_stage.py": 93,
    "proxy/large_messages/large_messages.py": 84,
    "proxy/large_messages/object_stage.py": 87,
    "proxy/large_messages/reads.py": 93,
    "proxy/large_messages/share_stage.py": 94,
    "proxy/large_messages/split_stage.py": 93,
    "proxy/large_messages/topic_references.py": 46,  # the rest needs a broker
    "proxy/large_messages/topic_limits.py": 90,
    "proxy/runtime/aiokafka_settings.py": 67,  # logins of own clients need a broker
    "proxy/sasl/conversation.py": 88,
    "proxy/sasl/relogin.py": 93,
    "proxy/sasl/token_provider.py": 93,
    "proxy/sasl/tokens.py": 94,
    "proxy/telemetry/failures.py": 92,
    "proxy/topic_configs/kafka_clients.py": 79,  # the rest needs a broker
}


class Row(NamedTuple):
    module: str
    percent: float
    floor: int
    missing: str  # lines

    @property
    def is_under(self) -> bool:
        return self.percent < self.floor


def rows(report: Mapping[str, Any], floors: Mapping[str, int], floor: int = FLOOR) -> Iterator[Row]:
    """A row for each module of what `coverage json` wrote, the least covered first."""
    files: Mapping[str, Any] = report["files"]
    for module, file in sorted(files.items(), key=lambda one: (one[1]["summary"]["percent_covered"], one[0])):
        percent, missing = file["summary"]["percent_covered"], ranges(file["missing_lines"])
        yield Row(module, percent, floors.get(module, floor), missing)


def ranges(lines: Iterable[int]) -> str:
    """Numbers in rising order, such as 1-3, 7."""
    found: list[list[int]] = []
    for line in lines:
        if found and found[-1][-1] == line - 1:
            found[-1].append(line)
        else:
            found.append([line])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found)


def table(of: Iterable[Row]) -> str:
    lines = [f"{'module':50} {'cover':>6} {'floor':>5}  missing lines"]
    lines += [
        f"{row.module:50} {row.percent:5.1f}% {row.floor:4}%  {'UNDER ITS FLOOR ' * row.is_under}{row.missing}".rstrip()
        for row in of
    ]
    return "\n".join(lines)


def main(path: str) -> int:
    found = list(rows(json.loads(Path(path).read_text()), FLOORS))
    print(table(found))
    return any(row.is_under for row in found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
