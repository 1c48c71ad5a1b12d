import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;

/**
 * A chain of three that writes down each call: the first one edits, the second one fails, the third one sees what is left.
 *
 * <p>tests/integration/interception/conformance_interceptors.py has the same three for the sidecar. What is said of them
 * there and here must be the same, but for the names of the hooks.
 */
public abstract class RecordingInterceptor implements ProducerInterceptor<byte[], byte[]>, ConsumerInterceptor<byte[], byte[]> {
    private Transcript transcript;
    private String clientId;

    public static final class First extends RecordingInterceptor {
        @Override
        ProducerRecord<byte[], byte[]> sent(ProducerRecord<byte[], byte[]> record) {
            record.headers().remove("unwanted").add("first", Transcript.bytes("1"));
            if (!"change".equals(Transcript.text(record.value()))) {
                return record;
            }
            return new ProducerRecord<>(
                    record.topic(), record.partition(), record.timestamp(), record.key(), Transcript.bytes("changed"), record.headers());
        }

        @Override
        ConsumerRecords<byte[], byte[]> consumed(ConsumerRecords<byte[], byte[]> records) {
            Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> left = new java.util.HashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                if (!Transcript.text(record.value()).startsWith("drop")) {
                    record.headers().add("first", Transcript.bytes("1"));
                    var edited = "secret".equals(Transcript.text(record.value())) ? masked(record) : record;
                    left.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), one -> new ArrayList<>()).add(edited);
                }
            }
            return new ConsumerRecords<>(left);
        }

        private static ConsumerRecord<byte[], byte[]> masked(ConsumerRecord<byte[], byte[]> record) {
            return new ConsumerRecord<>(
                    record.topic(), record.partition(), record.offset(), record.timestamp(), record.timestampType(),
                    record.serializedKeySize(), record.serializedValueSize(), record.key(), Transcript.bytes("masked"),
                    record.headers(), record.leaderEpoch());
        }
    }

    public static final class Second extends RecordingInterceptor {
        @Override
        ProducerRecord<byte[], byte[]> sent(ProducerRecord<byte[], byte[]> record) {
            if (Transcript.text(record.value()).startsWith("fail")) {
                record.headers().add("half", Transcript.bytes("done"));
                throw new IllegalStateException("on_send");
            }
            return record;
        }

        @Override
        void acknowledged() {
            throw new IllegalStateException("on_acknowledgement");
        }

        @Override
        ConsumerRecords<byte[], byte[]> consumed(ConsumerRecords<byte[], byte[]> records) {
            records.forEach(record -> record.headers().add("half", Transcript.bytes("done")));
            throw new IllegalStateException("on_consume");
        }

        @Override
        void committed() {
            throw new IllegalStateException("on_commit");
        }
    }

    public static final class Third extends RecordingInterceptor {
        @Override
        ProducerRecord<byte[], byte[]> sent(ProducerRecord<byte[], byte[]> record) {
            record.headers().add("third", null);
            return record;
        }

        @Override
        ConsumerRecords<byte[], byte[]> consumed(ConsumerRecords<byte[], byte[]> records) {
            records.forEach(record -> record.headers().add("third", null));
            return records;
        }
    }

    static List<String> chain() {
        return List.of(First.class.getName(), Second.class.getName(), Third.class.getName());
    }

    abstract ProducerRecord<byte[], byte[]> sent(ProducerRecord<byte[], byte[]> record);

    void acknowledged() {}

    abstract ConsumerRecords<byte[], byte[]> consumed(ConsumerRecords<byte[], byte[]> records);

    void committed() {}

    @Override
    public void configure(Map<String, ?> configs) {
        transcript = new Transcript((String) configs.get("recording.file"), getClass().getSimpleName().toLowerCase());
        clientId = (String) configs.get("client.id");
        transcript.write("configure");
    }

    @Override
    public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
        transcript.write(
                "on_send", "client_id", clientId, "topic", record.topic(), "partition", record.partition(),
                "timestamp", record.timestamp(), "key", Transcript.whole(record.key()), "value", Transcript.whole(record.value()),
                "headers", Transcript.of(record.headers()));
        return sent(record);
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        throw new AssertionError("with headers, since Kafka 4.1 (KIP-512)");
    }

    // No @Override: clients before 4.1 do not know it.
    public void onAcknowledgement(RecordMetadata metadata, Exception exception, Headers headers) {
        transcript.write(
                "on_acknowledgement", "client_id", clientId, "topic", metadata.topic(), "partition", metadata.partition(),
                "offset", metadata.hasOffset() ? metadata.offset() : -1, "timestamp", metadata.timestamp(),
                "key_size", metadata.serializedKeySize(), "value_size", metadata.serializedValueSize(),
                "error", Transcript.code(exception), "headers", Transcript.of(headers), "read_only", Transcript.isReadOnly(headers));
        acknowledged();
    }

    @Override
    public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
        transcript.write("on_consume", "client_id", clientId, "records", Transcript.of(records));
        return consumed(records);
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        transcript.write("on_commit", "client_id", clientId, "offsets", Transcript.of(offsets));
        committed();
    }

    @Override
    public void close() {
        transcript.write("close");
    }
}
