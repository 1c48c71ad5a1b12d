"""Record batch v2 (KIP-98): split a records field into batches, read one lazily, edit it, build one.

Nothing is read before it is needed: a header takes 61 bytes, records are decompressed and checked once, and a record's
key, value and headers are copied when they are read.
"""

from kafka_sidecar.codec.batch_layout import BATCH_HEADER_SIZE
from kafka_sidecar.codec.records.batch import Batch, BatchHeader, batches
from kafka_sidecar.codec.records.compression import BatchTooLargeError, Codec, DecompressionError
from kafka_sidecar.codec.records.edit import with_header, with_header_each, without_headers
from kafka_sidecar.codec.records.lone_record import LoneRecord, lone_record
from kafka_sidecar.codec.records.record import Header, Record
from kafka_sidecar.codec.records.records import Records
from kafka_sidecar.codec.records.writing import (
    KEEP,
    Change,
    Keep,
    NewRecord,
    build_batch,
    build_commit_marker,
    build_encoded,
    build_single,
    edit_records,
    encode_headers,
    encode_varint,
    end_at,
    reseal,
    with_producer,
)

__all__ = [
    "BATCH_HEADER_SIZE",
    "KEEP",
    "Batch",
    "BatchHeader",
    "BatchTooLargeError",
    "Change",
    "Codec",
    "DecompressionError",
    "Header",
    "Keep",
    "LoneRecord",
    "NewRecord",
    "Record",
    "Records",
    "batches",
    "build_batch",
    "build_commit_marker",
    "build_encoded",
    "build_single",
    "edit_records",
    "encode_headers",
    "encode_varint",
    "end_at",
    "lone_record",
    "reseal",
    "with_header",
    "with_header_each",
    "with_producer",
    "without_headers",
]
