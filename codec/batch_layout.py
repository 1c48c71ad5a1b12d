"""Where the fields of a record batch are (KIP-98), and of its two older formats what their sizes say."""

from __future__ import annotations

import struct

# baseOffset: int64
# batchLength: int32          of all that follows
# partitionLeaderEpoch: int32
# magic: int8
# crc: uint32                 of all that follows
# attributes: int16
# lastOffsetDelta: int32
# baseTimestamp: int64
# maxTimestamp: int64
# producerId: int64
# producerEpoch: int16
# baseSequence: int32
# records: int32 count, then the records, all compressed together if they are
HEADER = struct.Struct(">qiibIhiqqqhii")
BATCH_HEADER_SIZE = HEADER.size  # bytes
LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT = 8, 16, 17, 21, 23
MAX_TIMESTAMP_AT, PRODUCER_ID_AT, COUNT_AT = 35, 43, 57
LENGTH_FROM = 12  # batchLength counts the bytes after itself
NEWEST_MAGIC = 2
CODEC_BITS = 0x07
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
# By magic. Of 0: offset, size, crc, magic, attributes, key and value of a message; 1 has a timestamp.
MIN_BATCH_BYTES = {0: 26, 1: 34, 2: BATCH_HEADER_SIZE}
