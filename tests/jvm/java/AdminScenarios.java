import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** What Java's Admin can do to topics, configurations and the cluster; groups and offsets are in GroupAdminScenarios. */
public final class AdminScenarios {
    public static void main(String[] args) throws Throwable {
        Target.run(AdminScenarios.class, args);
    }

    /** Create, list, describe by name (DescribeTopicPartitions) and by id, more partitions, delete records and topics. */
    static void topics(Target target) throws Exception {
        String name = target.prefix + "-topic";
        try (Admin admin = target.admin()) {
            var created = admin.createTopics(List.of(new NewTopic(name, Optional.of(2), Optional.empty()).configs(Map.of("retention.ms", "1234567"))));
            created.all().get();
            Target.same("1234567", created.config(name).get().get("retention.ms").value());
            var id = created.topicId(name).get();
            Target.eventually("listed", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get(), names -> names.contains(name));
            var options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(1);
            var described = Target.eventually("described", () -> admin.describeTopics(List.of(name), options).allTopicNames().get().get(name),
                topic -> topic.partitions().size() == 2);
            Target.same(id, described.topicId());
            Target.same(Math.min(3, target.nodes), described.partitions().get(0).replicas().size());
            Target.same(name, Target.insist(() -> admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds()).get(id).name());
            Target.insist(() -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all());
            Target.eventually("5 partitions", () -> admin.describeTopics(List.of(name), options).allTopicNames().get().get(name),
                topic -> topic.partitions().size() == 5);
            target.send(name, 50);
            var partition = new TopicPartition(name, 1);
            var low = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).lowWatermarks();
            Target.same(4L, low.get(partition).get().lowWatermark());
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            Target.eventually("deleted", () -> admin.listTopics().names().get(), names -> !names.contains(name));
            try {
                admin.deleteTopics(List.of(name)).all().get();
                throw new AssertionError("a deleted topic was deleted again");
            } catch (ExecutionException error) {
                Target.check(error.getCause() instanceof UnknownTopicOrPartitionException, "it is unknown: " + error);
            }
        }
    }

    /** Topic and broker configurations, quotas, SCRAM credentials, ACLs. */
    static void configs(Target target) throws Exception {
        try (Admin admin = target.admin()) {
            String topic = target.topic("configs", 1);
            alterAndRead(admin, new ConfigResource(ConfigResource.Type.TOPIC, topic), "max.message.bytes", "65536");
            Node node = admin.describeCluster().nodes().get().iterator().next();
            alterAndRead(admin, new ConfigResource(ConfigResource.Type.BROKER, node.idString()), "log.cleaner.backoff.ms", "14000");
            alterAndRead(admin, new ConfigResource(ConfigResource.Type.BROKER, ""), "log.cleaner.backoff.ms", "13000");
            quotas(admin, target.prefix);
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(target.prefix, info, "secret"))).all().get();
            Target.eventually("the credential", () -> admin.describeUserScramCredentials().users().get(), users -> users.contains(target.prefix));
            acls(admin, target.prefix);
        }
    }

    private static void alterAndRead(Admin admin, ConfigResource resource, String name, String value) throws Exception {
        var set = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        Target.insist(() -> admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all());
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Target.eventually(name + " of " + resource,
            () -> admin.describeConfigs(List.of(resource), options).all().get().get(resource).get(name),
            entry -> entry != null && value.equals(entry.value()));
        var delete = new AlterConfigOp(new ConfigEntry(name, ""), AlterConfigOp.OpType.DELETE);
        Target.insist(() -> admin.incrementalAlterConfigs(Map.of(resource, List.of(delete))).all());
    }

    private static void quotas(Admin admin, String name) throws Exception {
        var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, name + "-nobody"));
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all().get();
        var filter = ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.CLIENT_ID, name + "-nobody")));
        Target.eventually("the quota", () -> admin.describeClientQuotas(filter).entities().get(), quotas -> quotas.containsKey(entity));
    }

    private static void acls(Admin admin, String name) throws Exception {
        var acl = new AclBinding(new ResourcePattern(ResourceType.TRANSACTIONAL_ID, name, PatternType.LITERAL),
            new AccessControlEntry("User:nobody", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW));
        admin.createAcls(List.of(acl)).all().get();
        Target.eventually("the ACL", () -> admin.describeAcls(acl.toFilter()).values().get(), found -> found.contains(acl));
        AclBindingFilter filter = acl.toFilter();
        Target.same(1, admin.deleteAcls(List.of(filter)).all().get().size());
    }

    /** Nodes, quorum, features, log directories, reassignment, elections, producers and transactions. */
    static void cluster(Target target) throws Exception {
        String topic = target.topic("cluster", 2);
        var partition = new TopicPartition(topic, 0);
        try (Admin admin = target.admin()) {
            var cluster = admin.describeCluster();
            Collection<Node> nodes = cluster.nodes().get();
            Target.same(target.nodes, nodes.size());
            Target.check(nodes.stream().allMatch(node -> node.host().equals("127.0.0.1")), "hosts: " + nodes);
            Target.check(cluster.clusterId().get().length() == 22 && cluster.controller().get() != null, "cluster id and controller");
            Target.check(cluster.authorizedOperations().get() == null, "operations were not asked for");
            Target.same(target.nodes, admin.describeMetadataQuorum().quorumInfo().get().voters().size());
            Target.check(admin.describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("metadata.version"), "features");
            List<Integer> ids = new ArrayList<>();
            nodes.forEach(node -> ids.add(node.id()));
            Target.same(target.nodes, admin.describeLogDirs(ids).allDescriptions().get().size());
            reassign(admin, partition, ids);
            elect(admin, partition);
            transactions(target, admin, partition);
        }
    }

    private static void reassign(Admin admin, TopicPartition partition, List<Integer> ids) throws Exception {
        List<Integer> replicas = new ArrayList<>(ids);
        Collections.reverse(replicas);
        var plan = Map.of(partition, Optional.of(new NewPartitionReassignment(replicas)));
        Target.insist(() -> admin.alterPartitionReassignments(plan).all());
        Target.eventually("reassigned", () -> admin.listPartitionReassignments(Set.of(partition)).reassignments().get(), Map::isEmpty);
    }

    private static void elect(Admin admin, TopicPartition partition) throws Exception {
        var outcome = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition);
        Target.check(outcome.isEmpty() || outcome.get() instanceof ElectionNotNeededException, "elected: " + outcome);
    }

    private static void transactions(Target target, Admin admin, TopicPartition partition) throws Exception {
        try (var producer = target.producer("transactional.id", target.prefix)) {
            producer.initTransactions();
            producer.beginTransaction();
            target.send(producer, partition.topic(), 2);
            Target.eventually("listed", () -> admin.listTransactions().all().get(),
                all -> all.stream().anyMatch(listing -> listing.transactionalId().equals(target.prefix)));
            Target.same(2, admin.describeTransactions(Set.of(target.prefix)).all().get().get(target.prefix).topicPartitions().size());
            Target.same(1, admin.describeProducers(Set.of(partition)).all().get().get(partition).activeProducers().size());
            admin.fenceProducers(Set.of(target.prefix)).all().get();
        }
        Target.eventually("aborted", () -> admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all().get().get(partition).offset(),
            offset -> offset == 2);
    }
}
