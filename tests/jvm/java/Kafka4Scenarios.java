import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** What only the Java clients of Kafka 4 can do. */
public final class Kafka4Scenarios {
    public static void main(String[] args) throws Throwable {
        Target.run(Kafka4Scenarios.class, args);
    }

    /** A share group: accept, release (delivered again) and reject (not delivered again). */
    static void share(Target target) throws Exception {
        String topic = target.topic("share", 2);
        String group = target.prefix + "-share";
        shareFromTheBeginning(target, group);
        target.send(topic, 40);
        Map<String, Object> config = target.config("group.id", group, "share.acknowledgement.mode", "explicit");
        Set<Integer> accepted = new HashSet<>();
        Set<Integer> released = new HashSet<>();
        try (var consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            Target.eventually("all but the rejected ones are accepted", () -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    consumer.acknowledge(record, judge(Integer.parseInt(record.value()), accepted, released));
                }
                consumer.commitSync().forEach((partition, error) -> Target.check(error.isEmpty(), "acknowledged: " + error));
                return accepted.size();
            }, count -> count == 36);
        }
        Target.same(4, released.size());
        try (Admin admin = target.admin()) {
            var described = admin.describeShareGroups(List.of(group)).all().get().get(group);
            Target.check(described.coordinator().host().equals("127.0.0.1"), "the coordinator: " + described.coordinator());
            admin.listShareGroupOffsets(Map.of(group, new org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec())).all().get();
            admin.deleteShareGroups(List.of(group)).all().get();
        }
    }

    private static AcknowledgeType judge(int number, Set<Integer> accepted, Set<Integer> released) {
        if (number % 10 == 3) {
            return AcknowledgeType.REJECT;
        }
        if (number % 10 == 7 && released.add(number)) {
            return AcknowledgeType.RELEASE;
        }
        Target.check(accepted.add(number), number + " is delivered once after it was accepted");
        return AcknowledgeType.ACCEPT;
    }

    static void shareFromTheBeginning(Target target, String group) throws Exception {
        try (Admin admin = target.admin()) {
            var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            var op = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(op))).all().get();
        }
    }

    /** A subscription whose regular expression the broker evaluates (RE2J). */
    static void brokerPattern(Target target) throws Exception {
        String topic = target.topic("re2j", 1);
        target.send(topic, 10);
        try (var consumer = target.consumer("group.id", target.prefix + "-re2j", "group.protocol", "consumer")) {
            consumer.subscribe(new SubscriptionPattern(target.prefix + "-re2."));
            Target.eventually("a record", () -> consumer.poll(Duration.ofMillis(100)), records -> !records.isEmpty());
        }
    }

    /** Groups of all kinds in one list, and brokers that are registered but fenced. */
    static void listGroups(Target target) throws Exception {
        String topic = target.topic("list", 1);
        target.send(topic, 1);
        String group = target.prefix + "-list";
        try (Admin admin = target.admin(); var consumer = target.consumer("group.id", group, "group.protocol", "consumer")) {
            consumer.subscribe(List.of(topic));
            Target.eventually("a record", () -> consumer.poll(Duration.ofMillis(100)), records -> !records.isEmpty());
            Target.eventually("listed", () -> admin.listGroups().all().get(),
                all -> all.stream().anyMatch(listing -> listing.groupId().equals(group)));
            var options = new DescribeClusterOptions().includeFencedBrokers(true);
            Target.check(admin.describeCluster(options).nodes().get().size() >= target.nodes, "fenced brokers included");
        }
    }

    static void configResources(Target target) throws Exception {
        try (Admin admin = target.admin()) {
            Target.check(!admin.listConfigResources().all().get().isEmpty(), "there are resources with configurations");
        }
    }
}
