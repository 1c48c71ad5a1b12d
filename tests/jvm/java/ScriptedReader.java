import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer that reads a topic: BOOTSTRAP TOPIC COUNT [SETTING=VALUE]...
 *
 * <p>With a group.id it is the only member: it says what the group has committed, reads COUNT records or more, or to the end
 * if COUNT is -1, and commits. Without one it is assigned all partitions. On stdout, as JSON: {"committed": {...}}, the
 * records, {"positions": {...}}.
 */
public final class ScriptedReader {
    private static final Duration LIMIT = Duration.ofSeconds(40);

    public static void main(String[] args) throws Exception {
        var config = Scripted.settings(args, 3);
        int wanted = Integer.parseInt(args[2]);
        boolean isMember = config.containsKey("group.id");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("fetch.max.wait.ms", "50");
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(args[1]).forEach(info -> partitions.add(new TopicPartition(args[1], info.partition())));
            if (isMember) {
                consumer.subscribe(List.of(args[1]));
                tellCommitted(consumer, partitions);
            } else {
                consumer.assign(partitions);
            }
            read(consumer, partitions, wanted);
            if (isMember) {
                consumer.commitSync();
            }
            ObjectNode positions = Scripted.JSON.createObjectNode();
            partitions.forEach(one -> positions.put(String.valueOf(one.partition()), consumer.position(one)));
            System.out.println(Scripted.JSON.createObjectNode().set("positions", positions));
        }
    }

    private static void tellCommitted(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(new HashSet<>(partitions));
        ObjectNode committed = Scripted.JSON.createObjectNode();
        found.forEach((one, offset) -> committed.put(String.valueOf(one.partition()), offset == null ? -1 : offset.offset()));
        System.out.println(Scripted.JSON.createObjectNode().set("committed", committed));
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, int wanted) {
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        long deadline = System.nanoTime() + LIMIT.toNanos();
        for (int found = 0; wanted >= 0 ? found < wanted : !isAt(consumer, ends); ) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not at the end in time after " + found + " records; ends: " + ends);
            }
            var records = consumer.poll(Duration.ofMillis(100));
            records.forEach(Scripted::tell);
            found += records.count();
        }
        // Assigned partitions have positions; after a few records both have been assigned.
        while (consumer.assignment().size() < partitions.size()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not assigned in time: " + consumer.assignment());
            }
            consumer.poll(Duration.ofMillis(100)).forEach(Scripted::tell);
        }
    }

    private static boolean isAt(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, Long> ends) {
        return consumer.assignment().size() == ends.size()
            && ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
    }
}
