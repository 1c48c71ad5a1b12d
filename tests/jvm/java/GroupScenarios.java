import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** What Java consumers in a group can do, in either protocol. */
public final class GroupScenarios {
    private static final int PARTITIONS = 4;

    public static void main(String[] args) throws Throwable {
        Target.run(GroupScenarios.class, args);
    }

    static void classic(Target target) throws Exception {
        rebalance(target, "group.protocol", "classic", "heartbeat.interval.ms", 200, "session.timeout.ms", 6000);
        pattern(target, "group.protocol", "classic");
        staticMember(target, "group.protocol", "classic");
        positions(target);
    }

    static void consumer(Target target) throws Exception {
        rebalance(target, "group.protocol", "consumer");
        staticMember(target, "group.protocol", "consumer");
    }

    static void consumerPattern(Target target) throws Exception {
        pattern(target, "group.protocol", "consumer");
    }

    /** A second member takes half of the partitions, and gives them back when it leaves; every record is seen once. */
    private static void rebalance(Target target, Object... protocol) throws Exception {
        String topic = target.topic("rebalance", PARTITIONS);
        target.send(topic, 100);
        Map<String, Object> config = target.config(protocol);
        config.put("group.id", target.prefix + "-rebalance");
        Object[] settings = settings(config);
        List<ConsumerRecord<String, String>> seen = new ArrayList<>();
        try (var first = target.consumer(settings)) {
            first.subscribe(List.of(topic));
            poll(seen, () -> first.assignment().size() == PARTITIONS && seen.size() == 100, first);
            first.commitSync();
            try (var second = target.consumer(settings)) {
                second.subscribe(List.of(topic));
                poll(seen, () -> first.assignment().size() == 2 && second.assignment().size() == 2, first, second);
                target.send(topic, 100);
                poll(seen, () -> seen.size() == 200, first, second);
                first.commitSync();
                second.commitSync();
            }
            poll(seen, () -> first.assignment().size() == PARTITIONS, first);
            Map<TopicPartition, OffsetAndMetadata> committed = first.committed(first.assignment());
            committed.forEach((partition, offset) -> Target.same(50L, offset.offset()));
        }
        Target.same(200, seen.size());
    }

    /** The topic that matches is created after the consumer has joined. */
    private static void pattern(Target target, Object... protocol) throws Exception {
        Map<String, Object> config = target.config(protocol);
        config.put("metadata.max.age.ms", 300);
        List<ConsumerRecord<String, String>> seen = new ArrayList<>();
        try (var consumer = grouped(target, "pattern", settings(config))) {
            consumer.subscribe(Pattern.compile(Pattern.quote(target.prefix) + "-pattern-.*"));
            consumer.poll(Duration.ofMillis(500));
            target.topic("other", 1);
            target.send(target.topic("pattern-a", 1), 10);
            poll(seen, () -> seen.size() == 10, consumer);
        }
    }

    private static void staticMember(Target target, Object... protocol) throws Exception {
        String topic = target.topic("static", 2);
        target.send(topic, 10);
        for (int life = 0; life < 2; life++) {
            Map<String, Object> config = target.config(protocol);
            List<ConsumerRecord<String, String>> seen = new ArrayList<>();
            try (var consumer = grouped(target, "static", "group.protocol", config.get("group.protocol"), "group.instance.id", "one")) {
                consumer.subscribe(List.of(topic));
                poll(seen, () -> seen.size() == 10, consumer);
                Target.same("one", consumer.groupMetadata().groupInstanceId().orElseThrow());
            }
        }
    }

    /** Seek, pause, offsets by time, beginning and end, committed metadata: without any rebalance. */
    private static void positions(Target target) throws Exception {
        String topic = target.topic("positions", 1);
        target.send(topic, 50);
        var partition = new TopicPartition(topic, 0);
        try (var consumer = grouped(target, "positions")) {
            consumer.assign(List.of(partition));
            Target.same(Map.of(partition, 0L), consumer.beginningOffsets(List.of(partition)));
            Target.same(Map.of(partition, 50L), consumer.endOffsets(List.of(partition)));
            consumer.seek(partition, 30);
            List<ConsumerRecord<String, String>> seen = new ArrayList<>();
            poll(seen, () -> seen.size() == 20, consumer);
            long at = seen.get(5).timestamp();
            Target.check(consumer.offsetsForTimes(Map.of(partition, at)).get(partition).offset() <= 35, "the offset of a time");
            consumer.pause(List.of(partition));
            consumer.seek(partition, 0);
            Target.check(consumer.poll(Duration.ofMillis(100)).isEmpty(), "a paused partition is silent");
            consumer.commitAsync(Map.of(partition, new OffsetAndMetadata(11)), null);
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(12, "a note")));
            Target.same("a note", consumer.committed(java.util.Set.of(partition)).get(partition).metadata());
            Target.check(consumer.listTopics().containsKey(topic), "the topic is listed");
        }
    }

    private static KafkaConsumer<String, String> grouped(Target target, String group, Object... pairs) {
        Map<String, Object> config = new HashMap<>(target.config(pairs));
        config.put("group.id", target.prefix + "-" + group);
        return target.consumer(settings(config));
    }

    private static Object[] settings(Map<String, Object> config) {
        return config.entrySet().stream().flatMap(entry -> Stream.of(entry.getKey(), entry.getValue())).toArray();
    }

    private interface Wish {
        boolean isGranted();
    }

    @SafeVarargs
    private static void poll(List<ConsumerRecord<String, String>> seen, Wish wish, KafkaConsumer<String, String>... consumers) {
        long deadline = System.nanoTime() + Target.LIMIT.toNanos();
        do {
            for (var consumer : consumers) {
                consumer.poll(Duration.ofMillis(50)).forEach(seen::add);
            }
            Target.check(System.nanoTime() < deadline, "granted in time; seen " + seen.size());
        } while (!wish.isGranted());
    }
}
