import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.function.Consumer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecord;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

/**
 * What Kafka's own classes make of record batches. One JSON object per line on stdout, as {@link #read} makes it.
 *
 * <p>write: batches of all kinds, made here. read: the batches that come as hex, one per line, on stdin.
 */
public final class Kafka4BatchJudge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long TIME = 1_700_000_000_000L;
    private static final int LONGEST_SHOWN = 100; // bytes
    private static final Header[] NO_HEADERS = {};

    /** What a batch is made with; the fields that a case does not care about stay as they are here. */
    private static final class Case {
        byte magic = RecordBatch.MAGIC_VALUE_V2;
        Compression compression = Compression.NONE;
        TimestampType timestampType = TimestampType.CREATE_TIME;
        long baseOffset = 0;
        long logAppendTime = RecordBatch.NO_TIMESTAMP;
        long producerId = RecordBatch.NO_PRODUCER_ID;
        short producerEpoch = RecordBatch.NO_PRODUCER_EPOCH;
        int baseSequence = RecordBatch.NO_SEQUENCE;
        boolean isTransactional = false;
        boolean isControl = false;
        int leaderEpoch = RecordBatch.NO_PARTITION_LEADER_EPOCH;
        long deleteHorizon = RecordBatch.NO_TIMESTAMP;

        byte[] built(Consumer<MemoryRecordsBuilder> records) {
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                    new ByteBufferOutputStream(1 << 20), magic, compression, timestampType, baseOffset, logAppendTime,
                    producerId, producerEpoch, baseSequence, isTransactional, isControl, leaderEpoch, 1 << 20,
                    deleteHorizon);
            records.accept(builder);
            return bytes(builder.build().buffer());
        }
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("write")) {
            write();
            return;
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(read(HexFormat.of().parseHex(line)));
        }
    }

    private static void write() {
        for (CompressionType type : CompressionType.values()) {
            Case plain = new Case();
            plain.compression = Compression.of(type).build();
            print(type.name + ", a bit of everything", plain.built(Kafka4BatchJudge::assorted));
            if (type != CompressionType.NONE) {
                print(type.name + ", several blocks", plain.built(Kafka4BatchJudge::many));
            }
            for (byte magic = 0; magic < 2 && type != CompressionType.ZSTD; magic++) {
                plain.magic = magic;
                print(type.name + ", magic " + magic, plain.built(builder -> builder.append(TIME, utf8("k"), utf8("v"))));
            }
        }
        flags();
        controls();
    }

    private static void flags() {
        Case idempotent = new Case();
        idempotent.producerId = 4242;
        idempotent.producerEpoch = 7;
        idempotent.baseSequence = Integer.MAX_VALUE - 1;
        print("idempotent", idempotent.built(Kafka4BatchJudge::assorted));
        idempotent.isTransactional = true;
        idempotent.compression = Compression.zstd().build();
        print("transactional", idempotent.built(Kafka4BatchJudge::assorted));

        Case appended = new Case();
        appended.timestampType = TimestampType.LOG_APPEND_TIME;
        appended.logAppendTime = TIME + 5555;
        print("log append time", appended.built(Kafka4BatchJudge::assorted));

        Case compacted = new Case();
        compacted.baseOffset = 1L << 40;
        compacted.leaderEpoch = 12;
        compacted.deleteHorizon = TIME + 86_400_000L;
        print("delete horizon, offsets with gaps", compacted.built(builder -> {
            builder.appendWithOffset((1L << 40) + 3, TIME, utf8("a"), null, NO_HEADERS);
            builder.appendWithOffset((1L << 40) + 70_000, TIME - 1, utf8("b"), utf8("v"), NO_HEADERS);
        }));

        ByteBuffer empty = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(empty, RecordBatch.MAGIC_VALUE_V2, 4242, (short) 7, 100, 50, 60, 3,
                TimestampType.CREATE_TIME, TIME, true, false);
        empty.flip();
        print("no records left", bytes(empty));
    }

    private static void controls() {
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.COMMIT, ControlRecordType.ABORT}) {
            Case control = new Case();
            control.isControl = true;
            control.isTransactional = true;
            control.producerId = 4242;
            control.producerEpoch = 7;
            print("control, " + type, control.built(
                    builder -> builder.appendEndTxnMarker(TIME, new EndTransactionMarker(type, 9))));
        }
        Case raft = new Case();
        raft.isControl = true;
        raft.leaderEpoch = 5;
        print("control, leader change", raft.built(
                builder -> builder.appendLeaderChangeMessage(TIME, new LeaderChangeMessage().setLeaderId(3))));
    }

    private static void assorted(MemoryRecordsBuilder builder) {
        Header[] headers = {
            new RecordHeader("trace", utf8("1")), new RecordHeader("null", null), new RecordHeader("empty", utf8("")),
            new RecordHeader("trace", utf8("2")), new RecordHeader("Bücher-Ω", new byte[] {-1, 0, 127}),
        };
        byte[] large = new byte[1500];
        Arrays.fill(large, (byte) 'x');
        builder.append(TIME, utf8("key"), utf8("value"), headers);
        builder.append(TIME - 1, null, utf8("no key"), NO_HEADERS);
        builder.append(TIME + 123_456_789L, utf8("no value"), null, NO_HEADERS);
        builder.append(TIME, utf8(""), utf8(""), NO_HEADERS);
        builder.append(TIME + 64, large, large, new Header[] {new RecordHeader("large", large)});
    }

    private static void many(MemoryRecordsBuilder builder) {
        for (int number = 0; number < 40; number++) {
            String value = ("number " + number + " of several, ").repeat(400);
            builder.append(TIME + number, utf8("key-" + number), utf8(value), NO_HEADERS);
        }
    }

    private static void print(String name, byte[] batch) {
        ObjectNode found = JSON.createObjectNode().put("name", name).put("hex", HexFormat.of().formatHex(batch));
        System.out.println(found.setAll(read(batch)));
    }

    /** Everything that Java sees in these bytes, or the error that it raises. */
    private static ObjectNode read(byte[] data) {
        ObjectNode found = JSON.createObjectNode();
        try {
            ArrayNode batches = JSON.createArrayNode();
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batches.add(described(batch));
            }
            found.set("batches", batches);
        } catch (RuntimeException error) {
            found.put("error", error.toString());
        }
        return found;
    }

    private static ObjectNode described(MutableRecordBatch batch) {
        ObjectNode found = JSON.createObjectNode().put("magic", batch.magic()).put("is_valid", batch.isValid())
                .put("size", batch.sizeInBytes());
        if (batch.magic() < RecordBatch.MAGIC_VALUE_V2) {
            return found;
        }
        batch.ensureValid();
        found.put("base_offset", batch.baseOffset()).put("last_offset", batch.lastOffset())
                .put("leader_epoch", batch.partitionLeaderEpoch()).put("codec", batch.compressionType().id)
                .put("base_timestamp", ((DefaultRecordBatch) batch).baseTimestamp())
                .put("max_timestamp", batch.maxTimestamp()).put("producer_id", batch.producerId())
                .put("producer_epoch", batch.producerEpoch()).put("base_sequence", batch.baseSequence())
                .put("count", batch.countOrNull()).put("is_transactional", batch.isTransactional())
                .put("is_control", batch.isControlBatch())
                .put("has_delete_horizon", batch.deleteHorizonMs().isPresent())
                .put("has_log_append_time", batch.timestampType() == TimestampType.LOG_APPEND_TIME);
        ArrayNode records = found.putArray("records");
        for (Record record : batch) {
            records.add(described((DefaultRecord) record));
        }
        return found;
    }

    private static ArrayNode described(DefaultRecord record) {
        ArrayNode headers = JSON.createArrayNode();
        for (Header header : record.headers()) {
            headers.add(JSON.createArrayNode().add(header.key()).add(hex(header.value())));
        }
        return JSON.createArrayNode().add(record.offset()).add(record.timestamp()).add(hex(bytes(record.key())))
                .add(hex(bytes(record.value()))).add(headers);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] all = new byte[buffer.remaining()];
        buffer.duplicate().get(all);
        return all;
    }

    /** Hex; of long data how long they are and their digest. */
    private static String hex(byte[] data) {
        if (data == null || data.length <= LONGEST_SHOWN) {
            return data == null ? null : HexFormat.of().formatHex(data);
        }
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(data);
            return data.length + " bytes, SHA-256 " + HexFormat.of().formatHex(digest);
        } catch (NoSuchAlgorithmException error) {
            throw new AssertionError(error);
        }
    }
}
