import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** What the guard of tests/integration/guards/rows.py says, as classes of a broker: the reference of the guard. */
public final class GuardingPolicies {
    private static final Pattern NAMING = Pattern.compile("[a-z]+([.][a-z0-9-]+)+");
    private static final int FEWEST = 3, MOST = 6, REPLICAS = 1;
    private static final long SHORTEST = 3_600_000, LONGEST = 604_800_000;
    private static final String RETENTION = "retention.ms";
    private static final Map<String, Set<String>> VALUES = Map.of(
        "cleanup.policy", Set.of("delete", "compact"),
        "min.insync.replicas", Set.of("1"));

    private GuardingPolicies() {}

    /** KIP-108. The numbers are null where the client has assigned replicas itself. */
    public static final class Creation implements CreateTopicPolicy {
        @Override
        public void validate(RequestMetadata asked) {
            insist(NAMING.matcher(asked.topic()).matches(), asked.topic(), "its name");
            Map<Integer, List<Integer>> assigned = asked.replicasAssignments();
            int partitions = assigned == null ? asked.numPartitions() : assigned.size();
            insist(partitions >= FEWEST && partitions <= MOST, asked.topic(), "partitions " + partitions);
            boolean replicated = assigned == null
                ? asked.replicationFactor() == REPLICAS
                : assigned.values().stream().allMatch(replicas -> replicas.size() == REPLICAS);
            insist(replicated, asked.topic(), "replicas");
            insist(asked.configs().get(RETENTION) != null, asked.topic(), RETENTION + " is missing");
            asked.configs().forEach((name, value) -> check(asked.topic(), name, value));
        }

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}
    }

    /** KIP-133. Of what a request takes away it gets null, unless AlterConfigs does so without naming it (KAFKA-14195). */
    public static final class Alteration implements AlterConfigPolicy {
        @Override
        public void validate(RequestMetadata asked) {
            if (asked.resource().type() != ConfigResource.Type.TOPIC) {
                return;
            }
            asked.configs().forEach((name, value) -> {
                if (value == null) {
                    insist(!name.equals(RETENTION), asked.resource().name(), RETENTION + " is required");
                } else {
                    check(asked.resource().name(), name, value);
                }
            });
        }

        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}
    }

    private static void check(String topic, String name, String value) {
        if (name.equals(RETENTION)) {
            long retention = Long.parseLong(value.trim());
            insist(retention >= SHORTEST && retention <= LONGEST, topic, name + "=" + value);
        } else {
            insist(VALUES.getOrDefault(name, Set.of()).contains(value), topic, name + "=" + value);
        }
    }

    private static void insist(boolean complies, String topic, String what) {
        if (!complies) {
            throw new PolicyViolationException(topic + ": " + what);
        }
    }
}
