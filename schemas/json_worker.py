"""The process of `json_process`: compiles JSON Schemas and validates values, one question after the other."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
import time
from collections import OrderedDict
from typing import IO, Any

from kafka_sidecar.schemas.json_process import Source
from kafka_sidecar.schemas.json_schema import JsonSchema

MAX_MEMORY = 1 << 30  # bytes of addresses
MAX_SCHEMAS = 256  # that are kept


def serve(requests: IO[bytes], answers: IO[bytes], limit_s: int) -> None:
    """Answer until the requests end.

    An answer that takes longer than ``limit_s`` ends the process by SIGALRM; who has asked ends it earlier, but may
    have been killed.
    """
    schemas: OrderedDict[Source, JsonSchema] = OrderedDict()

    def schema_of(source: Source) -> JsonSchema:
        if source not in schemas:
            text, documents, formats = source
            schemas[source] = JsonSchema(text, dict(documents), formats)
            while len(schemas) > MAX_SCHEMAS:
                schemas.popitem(last=False)
        schemas.move_to_end(source)
        return schemas[source]

    while True:
        try:
            kind, source, *more = pickle.load(requests)  # noqa: S301 - of the process that started this one
        except EOFError:
            return
        signal.alarm(limit_s)
        answer: Any
        try:
            began = time.monotonic()
            schema = schema_of(source)
            answer = time.monotonic() - began if kind == "compile" else schema.check_here(*more)[1]
        except ValueError as error:
            answer = ValueError(str(error))
        pickle.dump(answer, answers)
        answers.flush()
        signal.alarm(0)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    os.nice(5)  # the sidecar's own work goes first
    serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
