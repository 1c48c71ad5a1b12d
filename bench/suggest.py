"""The cost of suggest-policy over a topic: CPU, records per second and core, memory.

usage: suggest.py [--records N] [--json FILE]

To read and to summarize is measured; what replays the suggestion is measured by bench/replay.py.
The broker is a real one. How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from harness.cluster import Cluster
from replay import CORES, TOPIC, cpu_seconds, peak_megabytes, produce

from kafka_sidecar.pipeline.records.kafka_log import find_ranges
from kafka_sidecar.pipeline.records.slices import cut_slices
from kafka_sidecar.pipeline.session import start_session
from kafka_sidecar.pipeline.suggest.job import Job, summarize
from kafka_sidecar.pipeline.suggest.json_schema import Options
from kafka_sidecar.pipeline.suggest.proposal import propose
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.sections import Pipeline

WARM_UP = 1000


def measure(servers: str) -> dict[str, Any]:
    """One run in this process."""
    config = Config(
        bootstrap_servers=[servers], pipeline=Pipeline(master=f"local[{CORES}]", spark={"spark.driver.memory": "1g"})
    )
    spark = start_session(config.pipeline, "bench", uses_kafka=False)
    spark.sparkContext.parallelize(range(WARM_UP), CORES).map(abs).sum()  # the first workers are started
    slices = cut_slices(find_ranges({"bootstrap_servers": [servers]}, [TOPIC], None, None), CORES)
    before, begun = cpu_seconds(), time.monotonic()
    summary = summarize(spark, Job(config), slices)
    wall, after = time.monotonic() - begun, cpu_seconds()
    begun = time.monotonic()
    proposal = propose(TOPIC, summary, Options(tolerance=0.01))
    java, python = (after[kind] - before[kind] for kind in ("java", "python"))
    return {
        "records": summary.records, "slices": len(slices), "wall_s": wall, "java_cpu_s": java, "python_cpu_s": python,
        "us_per_record": 1e6 * (java + python) / summary.records,
        "records_per_core_s": summary.records / (java + python), "propose_s": time.monotonic() - begun,
        "fields": len(proposal.fields["value"]), **peak_megabytes(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", metavar="SERVERS", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.one:
        print(json.dumps(measure(flags.one)))
        return
    with Cluster.start("4.3.1") as cluster:
        produce(cluster.direct, flags.records)
        command = [sys.executable, __file__, "--one", cluster.direct]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = done.stdout.splitlines()[-1]
    print(found)
    if flags.json:
        flags.json.write_text(found)


if __name__ == "__main__":
    main()
