import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What an application does while its records and commits are intercepted, by itself or by a sidecar:
 * SCENARIO BOOTSTRAP PREFIX TRANSCRIPT own|none [SETTING=VALUE]...
 *
 * <p>Its topics exist; their names begin with the prefix. What it is told is written to the transcript as well. With
 * "own" its clients have the chain of RecordingInterceptor; the settings are those of its clients.
 */
public final class InterceptedClient {
    private final String bootstrap;
    private final String prefix;
    private final String file;
    private final boolean hasInterceptors;
    private final Map<String, Object> settings = new HashMap<>();
    private final Transcript told;

    private InterceptedClient(String[] args) {
        bootstrap = args[1];
        prefix = args[2];
        file = args[3];
        hasInterceptors = args[4].equals("own");
        for (int at = 5; at < args.length; at++) {
            String[] setting = args[at].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        told = new Transcript(file, "application");
    }

    public static void main(String[] args) throws Throwable {
        try {
            InterceptedClient.class.getDeclaredMethod(args[0]).invoke(new InterceptedClient(args));
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw error.getCause();
        }
    }

    private Map<String, Object> config(Object... pairs) {
        Map<String, Object> config = new HashMap<>(settings);
        config.put("bootstrap.servers", bootstrap);
        config.put("client.id", "conformance");
        config.put("recording.file", file);
        if (hasInterceptors) {
            config.put("interceptor.classes", RecordingInterceptor.chain());
        }
        for (int at = 0; at < pairs.length; at += 2) {
            config.put((String) pairs[at], pairs[at + 1]);
        }
        return config;
    }

    private KafkaProducer<byte[], byte[]> producer(Object... pairs) {
        return new KafkaProducer<>(config(pairs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(Object... pairs) {
        Map<String, Object> config = config("group.id", prefix + "group", "auto.offset.reset", "earliest", "fetch.max.wait.ms", 50);
        config.putAll(config(pairs));
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** The time is made up, so that it can be known from the broker's. */
    private ProducerRecord<byte[], byte[]> record(String topic, String key, String value, String... headers) {
        var record = new ProducerRecord<>(prefix + topic, 0, 1000L, Transcript.bytes(key), Transcript.bytes(value), new RecordHeaders());
        for (int at = 0; at < headers.length; at += 2) {
            record.headers().add(headers[at], Transcript.bytes(headers[at + 1]));
        }
        return record;
    }

    private void send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) {
        producer.send(record, (metadata, exception) -> told.write(
                "callback", "topic", record.topic(), "partition", metadata == null ? -1 : metadata.partition(),
                "offset", metadata != null && metadata.hasOffset() ? metadata.offset() : -1, "error", Transcript.code(exception)));
    }

    /** Values that the interceptors change, fail on or leave alone; headers of all kinds. */
    void chain() {
        try (var producer = producer("linger.ms", 20)) {
            var first = record("t", "k0", "plain", "h", "1", "h", null, "", "", "\u00e9\u4e2d", "\u00ff");
            send(producer, first);
            send(producer, record("t", "k1", "change", "h", "2"));
            send(producer, record("t", "k2", "fail"));
            send(producer, record("t", "k3", "remove", "unwanted", "1", "h", "3", "unwanted", null));
            send(producer, record("t", "k4", null, "h", "of a tombstone"));
            producer.flush();
            told.write("headers_after_send", "topic", prefix + "t", "read_only", Transcript.isReadOnly(first.headers()));
        }
    }

    /** The producer chooses partitions and takes the time. */
    void chosen() {
        try (var producer = producer("linger.ms", 20)) {
            for (int number = 0; number < 6; number++) {
                send(producer, new ProducerRecord<>(prefix + "t", Transcript.bytes("k" + number), Transcript.bytes("v" + number)));
            }
        }
    }

    void acknowledged() {
        for (String acks : List.of("all", "1", "0")) {
            try (var producer = producer("acks", acks, "enable.idempotence", acks.equals("all"))) {
                for (String topic : List.of("created-" + acks, "appended-" + acks)) {
                    send(producer, record(topic, "key", "value"));
                    send(producer, record(topic, null, "no key"));
                    send(producer, record(topic, "no value", null));
                    send(producer, record(topic, "", ""));
                }
            }
        }
    }

    /** By the broker. */
    void refused() {
        try (var producer = producer("linger.ms", 0)) {
            send(producer, record("small", "k0", "x".repeat(5000)));
            producer.flush();
            send(producer, record("small", "k1", "fits"));
            producer.flush();
            send(producer, record("recent", "k2", "of 1970"));
            producer.flush();
        }
    }

    /** One record without a key among others, where all need one. */
    void innocent() {
        try (var producer = producer("linger.ms", 200)) {
            send(producer, record("compacted", "k0", "good"));
            send(producer, record("compacted", null, "bad"));
            send(producer, record("compacted", "k2", "good"));
        }
    }

    /** The topic is made anew between two records: the producer learns that from the answer to the second, and tries again. */
    void retried() throws Exception {
        try (var producer = producer("enable.idempotence", false); Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            send(producer, record("t", "k0", "v"));
            producer.flush();
            admin.deleteTopics(List.of(prefix + "t")).all().get();
            Target.insist(() -> admin.createTopics(List.of(new NewTopic(prefix + "t", 1, (short) 1))).all());
            Target.insist(() -> admin.listOffsets(Map.of(new TopicPartition(prefix + "t", 0), OffsetSpec.latest())).all());
            send(producer, record("t", "k1", "v"));
        }
    }

    /** What never leaves the client: too large for it, to a topic that cannot be, after the producer was closed. */
    void unsent() {
        var producer = producer("max.request.size", 1000, "max.block.ms", 500);
        send(producer, record("t", "k0", "x".repeat(5000)));
        var nowhere = record("no such name", "k1", "v");
        send(producer, nowhere);
        told.write("headers_after_send", "topic", nowhere.topic(), "read_only", Transcript.isReadOnly(nowhere.headers()));
        producer.close();
        try {
            producer.send(record("t", "k2", "v"));
        } catch (IllegalStateException error) {
            told.write("closed", "topic", prefix + "t");
        }
    }

    /** Everything from the beginning, in a group of its own. */
    void consumed() throws Exception {
        try (var consumer = consumer("enable.auto.commit", false, "isolation.level", "read_committed")) {
            consumer.subscribe(List.of(prefix + "t"));
            read(consumer);
        }
    }

    /** Until the end of all partitions, and a little longer. */
    private void read(KafkaConsumer<byte[], byte[]> consumer) {
        int partitions = consumer.partitionsFor(prefix + "t").size();
        until(consumer, "the end", () -> consumer.assignment().size() == partitions
                && consumer.endOffsets(consumer.assignment()).entrySet().stream()
                        .allMatch(end -> consumer.position(end.getKey()) >= end.getValue()));
        until(consumer, "the end", () -> true);
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        consumer.assignment().forEach(place -> positions.put(place, new OffsetAndMetadata(consumer.position(place))));
        told.write("positions", "offsets", Transcript.of(positions));
    }

    private void until(KafkaConsumer<byte[], byte[]> consumer, String what, BooleanSupplier isDone) {
        long deadline = System.nanoTime() + 20_000_000_000L;
        do {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
            if (!records.isEmpty()) {
                told.write("polled", "records", Transcript.of(records));
            }
            Target.check(System.nanoTime() < deadline, what + " is reached in time");
        } while (!isDone.getAsBoolean());
    }

    /** Every way to commit; some fail. */
    void commits() {
        var zero = new TopicPartition(prefix + "t", 0);
        var one = new TopicPartition(prefix + "t", 1);
        var tooLong = "x".repeat(5000);
        try (var consumer = consumer("enable.auto.commit", false)) {
            consumer.subscribe(List.of(prefix + "t"));
            read(consumer);
            consumer.commitSync();
            consumer.commitSync(Map.of(zero, new OffsetAndMetadata(3, "three")));
            var answers = new java.util.concurrent.atomic.AtomicInteger();
            OffsetCommitCallback callback = (offsets, exception) -> {
                told.write("commit_callback", "offsets", Transcript.of(offsets), "error", Transcript.code(exception));
                answers.incrementAndGet();
            };
            consumer.commitAsync(Map.of(one, new OffsetAndMetadata(4, "four")), callback);
            until(consumer, "an answer", () -> answers.get() == 1);
            fails(consumer, Map.of(zero, new OffsetAndMetadata(5, tooLong)));
            fails(consumer, Map.of(zero, new OffsetAndMetadata(6, tooLong), one, new OffsetAndMetadata(7, "seven")));
            consumer.commitAsync(Map.of(), callback);
            until(consumer, "an answer", () -> answers.get() == 2);
            consumer.commitSync(Map.of());
            told.write("committed", "offsets", Transcript.of(consumer.committed(Set.of(zero, one))));
        }
    }

    private void fails(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, OffsetAndMetadata> offsets) {
        try {
            consumer.commitSync(offsets);
            throw new AssertionError("a commit with too much metadata succeeds");
        } catch (KafkaException error) {
            told.write("commit_failed", "topic", prefix + "t", "error", Transcript.code(error));
        }
    }

    /** The consumer commits when it is closed. */
    void automatic() {
        try (var consumer = consumer("enable.auto.commit", true, "auto.commit.interval.ms", 600_000)) {
            consumer.subscribe(List.of(prefix + "t"));
            read(consumer);
        }
    }

    /** Records and offsets in one transaction. */
    void transaction() {
        var input = new TopicPartition(prefix + "t", 0);
        try (var consumer = consumer("enable.auto.commit", false);
                var producer = producer("transactional.id", prefix + "id")) {
            consumer.subscribe(List.of(prefix + "t"));
            read(consumer);
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, record("out", "k0", "one"));
            send(producer, record("out", "k1", "two"));
            producer.sendOffsetsToTransaction(Map.of(input, new OffsetAndMetadata(2, "two")), consumer.groupMetadata());
            producer.commitTransaction();
            told.write("committed", "offsets", Transcript.of(consumer.committed(Set.of(input))));
        }
    }
}
