import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** What Java's Admin can do to groups and their offsets. */
public final class GroupAdminScenarios {
    public static void main(String[] args) throws Throwable {
        Target.run(GroupAdminScenarios.class, args);
    }

    /** List, describe, throw members out, delete: a group with a member, seen from outside. */
    static void groups(Target target) throws Exception {
        String topic = target.topic("groups", 2);
        String group = target.prefix + "-group";
        target.send(topic, 4);
        try (Admin admin = target.admin(); var consumer = target.consumer("group.id", group, "group.protocol", "classic")) {
            consumer.subscribe(List.of(topic));
            Target.eventually("a record", () -> consumer.poll(Duration.ofMillis(100)), records -> !records.isEmpty());
            consumer.commitSync();
            Target.eventually("listed", () -> admin.listConsumerGroups().all().get(),
                all -> all.stream().anyMatch(listing -> listing.groupId().equals(group)));
            var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            Target.same(1, described.members().size());
            Target.same(2, described.members().iterator().next().assignment().topicPartitions().size());
            Target.check(described.coordinator().host().equals("127.0.0.1"), "the coordinator: " + described.coordinator());
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all().get();
            Target.same(0, admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().size());
            admin.deleteConsumerGroups(List.of(group)).all().get();
            Target.check(admin.listConsumerGroups().all().get().stream().noneMatch(listing -> listing.groupId().equals(group)), "deleted");
        }
    }

    /** Committed offsets: alter, list (of one group and of several at once), delete. Log offsets: by every kind of question. */
    static void offsets(Target target) throws Exception {
        String topic = target.topic("offsets", 2);
        String group = target.prefix + "-group";
        target.send(topic, 20);
        var first = new TopicPartition(topic, 0);
        var second = new TopicPartition(topic, 1);
        try (Admin admin = target.admin()) {
            admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(3, "three"), second, new OffsetAndMetadata(5))).all().get();
            var listed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            Target.same(List.of(3L, 5L, "three"), List.of(listed.get(first).offset(), listed.get(second).offset(), listed.get(first).metadata()));
            var both = admin.listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec(), group + "-none", new ListConsumerGroupOffsetsSpec())).all().get();
            Target.same(List.of(2, 0), List.of(both.get(group).size(), both.get(group + "-none").size()));
            admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
            Target.same(Set.of(second), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().keySet());
            Target.same(0L, ask(admin, first, OffsetSpec.earliest()));
            Target.same(10L, ask(admin, first, OffsetSpec.latest()));
            Target.same(0L, ask(admin, first, OffsetSpec.forTimestamp(1)));
            Target.check(ask(admin, first, OffsetSpec.maxTimestamp()) <= 9L, "the offset of the newest record");
        }
    }

    private static long ask(Admin admin, TopicPartition partition, OffsetSpec question) throws Exception {
        return admin.listOffsets(Map.of(partition, question)).all().get().get(partition).offset();
    }
}
