"""The cost of a record of 1 KB under the policy `jws`, by algorithm and form, next to the verification alone.

usage: signatures.py [--reps N] [--only TEXT]

How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from base64 import urlsafe_b64decode
from pathlib import Path
from statistics import median

from records import cpu_ns
from rig.report import Row, table

from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch
from kafka_sidecar.policies.builtin.jws import encode
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import TopicMetadata
from kafka_sidecar.proxy.runtime.program import configure_allocator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.jws import SigningKey, key_set

TOPIC = TopicMetadata("orders", 0, bytes(16), "")
COUNT, SIZE = 200, 1000  # records, and bytes of each
ALGORITHMS = ("ES256", "ES384", "ES512", "EdDSA", "PS256", "RS256")
POLICY, ALONE = "jws", "the verification alone"
LIMIT = 100 << 20


def row(algorithm: str, form: str, folder: Path, reps: int) -> Row:
    key, value = SigningKey("key", algorithm), b"x" * SIZE
    (folder / "keys").write_text(key_set(key))
    plan = PolicyCatalog({"it": PolicySettings("jws", settings={"jwks_file": str(folder / "keys")})}).plan("it")
    policy = plan.rules[0].policy
    jws = key.sign(value, form)
    signed = [NewRecord(value, headers=[Header("kroxylicious.io/jws", jws)]) for _ in range(COUNT)]
    (batch,) = batches(build_batch(signed))
    head, tail = jws.partition(b".")[0], jws.rpartition(b".")[2]
    verifier, public = policy._verifiers[algorithm], policy._keys.known[0].public  # type: ignore[attr-defined]
    data = head + b"." + (value if form == "plain" else encode(value))
    raw = urlsafe_b64decode(tail + b"=" * (-len(tail) % 4))
    assert verifier.verify(data, public, raw)
    assert plan.validate(TOPIC, batch, LIMIT) == []
    whole = [cpu_ns(lambda: plan.validate(TOPIC, batch, LIMIT), 1) / COUNT for _ in range(reps)]
    alone = [cpu_ns(lambda: verifier.verify(data, public, raw), COUNT) for _ in range(reps)]
    cells = {POLICY: f"{median(whole) / 1000:.1f}", ALONE: f"{median(alone) / 1000:.1f}"}
    return Row(f"{algorithm}, {form}: CPU us/record", cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=9, help="repetitions; default: %(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="only algorithms with this in their name")
    options = parser.parse_args()
    configure_allocator()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            row(algorithm, form, Path(folder), options.reps)
            for algorithm in ALGORITHMS
            if options.only in algorithm
            for form in ("attached", "detached", "plain")
        ]
    print(table(rows, (POLICY, ALONE)))


if __name__ == "__main__":
    main()
