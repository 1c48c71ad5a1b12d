import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One producer of batches: BOOTSTRAP TOPIC [SETTING=VALUE]...
 *
 * <p>On stdin lines of JSON: {"partition": 0, "records": [...]} is sent and waited for; {"do": "begin"}, "commit" and
 * "abort" are calls of transactions. On stdout for each record its offset, or -1, a tab, and the exception's class.
 */
public final class ScriptedProducer {
    public static void main(String[] args) throws Exception {
        var config = Scripted.settings(args, 2);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (config.containsKey("transactional.id")) {
                producer.initTransactions();
            }
            producer.partitionsFor(args[1]);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode step = Scripted.JSON.readTree(line);
                switch (step.path("do").asText("send")) {
                    case "begin" -> producer.beginTransaction();
                    case "commit" -> producer.commitTransaction();
                    case "abort" -> producer.abortTransaction();
                    default -> send(producer, args[1], step);
                }
            }
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, JsonNode step) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : step.get("records")) {
            sent.add(producer.send(Scripted.record(topic, step.get("partition").asInt(), record)));
        }
        producer.flush();
        for (var one : sent) {
            System.out.println(result(one));
        }
    }

    private static String result(Future<RecordMetadata> future) throws Exception {
        try {
            return future.get().offset() + "\t";
        } catch (ExecutionException error) {
            return "-1\t" + error.getCause().getClass().getSimpleName();
        }
    }
}
