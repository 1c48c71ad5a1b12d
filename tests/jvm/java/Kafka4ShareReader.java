import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A share consumer that reads until it has seen COUNT different values: BOOTSTRAP TOPIC GROUP COUNT. */
public final class Kafka4ShareReader {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]);
        Map<String, Object> config = Map.of("bootstrap.servers", args[0], "group.id", args[2]);
        try (Admin admin = Admin.create(config)) {
            var op = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, args[2]), List.of(op))).all().get();
        }
        Set<String> seen = new HashSet<>();
        try (var consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[1]));
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (seen.size() < count && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> seen.add(record.value()));
            }
        }
        if (seen.size() < count) {
            throw new AssertionError("saw " + seen.size() + " of " + count);
        }
    }
}
