#!/usr/bin/env bash
# How the time of reconcile grows with events and cores: a Spark standalone cluster of two workers on loopback.
#
#     bash bench/reconcile_cluster.sh [EVENTS ...]
#
# Each worker has one core. Nothing of the job is changed: spark-submit names the master. Prints rows for the table in
# docs/reference/benchmarks.md. Needs `make spark-install`; MEMORY is that of each process (default 2g).
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH" PYSPARK_PYTHON="$PWD/.venv/bin/python" PYTHONPATH="$PWD/src:$PWD/tests"
export SPARK_LOCAL_IP=127.0.0.1 KAFKA_SIDECAR__PIPELINE__RECONCILE__LATENESS=20m
export KAFKA_SIDECAR__PIPELINE__RECONCILE__CLOCK_SKEW=30s
SPARK_HOME=$(python -c 'import pyspark; print(pyspark.__path__[0])')
export SPARK_HOME
work=$(mktemp -d) memory=${MEMORY:-2g}
pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; rm -rf "$work"; }
trap stop EXIT
port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
master=spark://127.0.0.1:$port

start() { "$SPARK_HOME/bin/spark-class" "$@" >>"$work/cluster.log" 2>&1 & pids+=($!); }
SPARK_DAEMON_MEMORY=256m start org.apache.spark.deploy.master.Master --host 127.0.0.1 --port "$port" --webui-port 0
for number in 1 2; do
    SPARK_DAEMON_MEMORY=256m start org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --webui-port 0 \
        --cores 1 --memory "$memory" --work-dir "$work/worker-$number" "$master"
done
timeout 60 bash -c "until [ \$(grep -c 'Successfully registered' '$work/cluster.log') = 2 ]; do sleep 1; done"

run() { # EVENTS CORES
    local began ended
    rm -rf "$work/tables"
    began=$(date +%s.%N)
    "$SPARK_HOME/bin/spark-submit" --master "$master" --total-executor-cores "$2" --executor-memory "$memory" \
        --driver-memory "$memory" --conf spark.sql.shuffle.partitions=4 --conf spark.log.level=ERROR \
        pipeline/__main__.py reconcile --input "$work/events" --input-format parquet --path "$work/tables" \
        --now 2027-01-01T00:00:00 >"$work/out" 2>>"$work/cluster.log" || { tail -30 "$work/cluster.log"; exit 1; }
    ended=$(date +%s.%N)
    printf '| %s | %s | %.0f | %s | %s |\n' "$1" "$2" "$(echo "$ended - $began" | bc)" \
        "$(grep -c '^batch' "$work/out")" "$(du -sh "$work/tables" | cut -f1)"
    cp "$work/out" "${OUT:-/dev/null}"
}

printf '| events | cores | seconds | batches | size of the tables |\n| --- | --- | --- | --- | --- |\n'
for events in "${@:-1000000}"; do
    rm -rf "$work/events"
    python tests/pipeline/reconcile/generate.py "$work/events" "$events" >"$work/truth.json" 2>>"$work/cluster.log"
    for cores in 1 2; do run "$events" "$cores"; done
    echo "expected: $(cat "$work/truth.json")" >&2
    tail -1 "$work/out" >&2
done
