import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a share group that reads until a file exists: BOOTSTRAP TOPIC FILE [SETTING=VALUE]... It prints the records. */
public final class Kafka4ScriptedShareReader {
    public static void main(String[] args) throws Exception {
        var config = Scripted.settings(args, 3);
        Path stop = Path.of(args[2]);
        try (var consumer = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[1]));
            while (!Files.exists(stop)) {
                consumer.poll(Duration.ofMillis(100)).forEach(Scripted::tell);
            }
        }
    }
}
