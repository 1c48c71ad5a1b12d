import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** As Traffic, with a share consumer: BOOTSTRAP TOPIC GROUP SIGNALS LIMIT_S. */
public final class Kafka4Traffic {
    public static void main(String[] args) {
        Traffic.Seen seen = new Traffic.Seen(Path.of(args[3]));
        long deadline = System.nanoTime() + Integer.parseInt(args[4]) * 1_000_000_000L;
        Map<String, Object> config = Map.of("bootstrap.servers", args[0], "group.id", args[2], "metadata.max.age.ms", 3000);
        try (var consumer = new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[1]));
            while (!seen.isComplete() && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    seen.add(Integer.parseInt(record.value()));
                }
            }
        }
        seen.report();
    }
}
