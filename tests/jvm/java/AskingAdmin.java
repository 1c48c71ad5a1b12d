import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;

/**
 * Java's Admin asks for topics, and prints "topic ERROR" for each.
 *
 * BOOTSTRAP create ONLY TOPIC:PARTITIONS:REPLICAS[:CONFIG=VALUE;...] ...
 * BOOTSTRAP configs ONLY TOPIC OPERATION CONFIG [VALUE]
 * BOOTSTRAP partitions TOPIC COUNT
 * BOOTSTRAP delete TOPIC
 */
public final class AskingAdmin {
    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            switch (args[1]) {
                case "create" -> create(admin, args);
                case "configs" -> configs(admin, args);
                case "partitions" -> print(admin.createPartitions(Map.of(args[2], NewPartitions.increaseTo(Integer.parseInt(args[3])))).values());
                case "delete" -> print(admin.deleteTopics(List.of(args[2])).topicNameValues());
                default -> throw new IllegalArgumentException(args[1]);
            }
        }
    }

    private static void create(Admin admin, String[] args) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (int at = 3; at < args.length; at++) {
            String[] parts = args[at].split(":", 4);
            Map<String, String> configs = new HashMap<>();
            for (String config : parts.length < 4 ? new String[0] : parts[3].split(";")) {
                String[] pair = config.split("=", 2);
                configs.put(pair[0], pair[1]);
            }
            var partitions = parts[1].equals("-1") ? Optional.<Integer>empty() : Optional.of(Integer.valueOf(parts[1]));
            var replicas = parts[2].equals("-1") ? Optional.<Short>empty() : Optional.of(Short.valueOf(parts[2]));
            topics.add(new NewTopic(parts[0], partitions, replicas).configs(configs));
        }
        var options = new CreateTopicsOptions().validateOnly(Boolean.parseBoolean(args[2]));
        print(admin.createTopics(topics, options).values());
    }

    private static void configs(Admin admin, String[] args) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, args[3]);
        var entry = new ConfigEntry(args[5], args.length > 6 ? args[6] : null);
        var changes = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.valueOf(args[4])));
        var options = new AlterConfigsOptions().validateOnly(Boolean.parseBoolean(args[2]));
        var values = admin.incrementalAlterConfigs(Map.of(resource, changes), options).values();
        print(Map.of(args[3], values.get(resource)));
    }

    private static void print(Map<String, KafkaFuture<Void>> results) throws InterruptedException {
        for (var result : results.entrySet()) {
            Errors error = Errors.NONE;
            try {
                result.getValue().get();
            } catch (ExecutionException failed) {
                error = Errors.forException(failed.getCause());
            }
            System.out.println(result.getKey() + " " + error.name());
        }
    }
}
