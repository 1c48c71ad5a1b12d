import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The only member of a group: reads topics to their ends, commits and tells what it saw. BOOTSTRAP TOPIC,... GROUP
 * [SETTING=VALUE]... With a transactional.id it commits in a transaction.
 *
 * <p>On stdout, separated by tabs: "record", topic, partition, offset, key, value, and each header as "key=value"; bytes are
 * in hexadecimal, null is "null". Then "position", topic, partition, offset.
 */
public final class GroupReader {
    private static final Duration LIMIT = Duration.ofSeconds(25);

    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[0], "group.id", args[2],
            "auto.offset.reset", "earliest", "enable.auto.commit", "false", "fetch.max.wait.ms", "50"));
        for (int at = 3; at < args.length; at++) {
            String[] setting = args[at].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        Object transactionalId = config.remove("transactional.id");
        List<String> topics = List.of(args[1].split(","));
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (String topic : topics) {
                consumer.partitionsFor(topic).forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            }
            consumer.subscribe(topics);
            read(consumer, partitions);
            if (transactionalId == null) {
                consumer.commitSync();
            } else {
                commitInTransaction(consumer, partitions, Map.of("bootstrap.servers", args[0], "transactional.id", transactionalId));
            }
            for (TopicPartition partition : partitions) {
                tell("position", partition.topic(), partition.partition(), consumer.position(partition));
            }
        }
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions) {
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        long deadline = System.nanoTime() + LIMIT.toNanos();
        do {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not at the end in time; assigned: " + consumer.assignment() + ", ends: " + ends);
            }
            consumer.poll(Duration.ofMillis(100)).forEach(GroupReader::tell);
        } while (consumer.assignment().size() < partitions.size()
            || partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition)));
    }

    private static void commitInTransaction(
            KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, Map<String, Object> config) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        partitions.forEach(partition -> offsets.put(partition, new OffsetAndMetadata(consumer.position(partition), "own")));
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        }
    }

    private static void tell(ConsumerRecord<byte[], byte[]> record) {
        List<Object> parts = new ArrayList<>(
            List.of("record", record.topic(), record.partition(), record.offset(), hex(record.key()), hex(record.value())));
        for (Header header : record.headers()) {
            parts.add(hex(header.key().getBytes(StandardCharsets.UTF_8)) + "=" + hex(header.value()));
        }
        tell(parts.toArray());
    }

    private static String hex(byte[] data) {
        return data == null ? "null" : HexFormat.of().formatHex(data);
    }

    private static void tell(Object... parts) {
        System.out.println(String.join("\t", List.of(parts).stream().map(String::valueOf).toList()));
    }
}
