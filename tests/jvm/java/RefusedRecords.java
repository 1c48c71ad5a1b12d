import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * One producer that sends waves of records, of which some are refused: BOOTSTRAP TOPIC [SETTING=VALUE]...
 *
 * <p>On stdin one record per line: "good VALUE" or "bad VALUE"; an empty line ends a wave. A wave is flushed, and is a
 * transaction where there is a transactional.id. On stdout, separated by tabs: VALUE, the exception's class or nothing, its
 * message; after a wave an empty line, or the class of what commitTransaction threw.
 */
public final class RefusedRecords {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[0]));
        for (int at = 2; at < args.length; at++) {
            String[] setting = args[at].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        boolean isTransactional = config.containsKey("transactional.id");
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            if (isTransactional) {
                producer.initTransactions();
            }
            producer.partitionsFor(args[1]);
            List<String> wave = new ArrayList<>();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (!line.isEmpty()) {
                    wave.add(line);
                    continue;
                }
                if (isTransactional) {
                    producer.beginTransaction();
                }
                send(producer, args[1], wave);
                System.out.println(isTransactional ? end(producer) : "");
                wave.clear();
            }
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, List<String> wave) throws Exception {
        Map<String, Future<RecordMetadata>> sent = new LinkedHashMap<>();
        for (String line : wave) {
            boolean isGood = line.startsWith("good ");
            String value = line.substring(line.indexOf(' ') + 1);
            var record = new ProducerRecord<>(topic, 0, isGood ? "k" : null, value);
            if (isGood) {
                record.headers().add("h", new byte[] {1});
            }
            try {
                sent.put(value, producer.send(record));
            } catch (KafkaException error) { // an earlier record of the transaction has been refused already
                sent.put(value, CompletableFuture.failedFuture(error));
            }
        }
        producer.flush();
        for (var entry : sent.entrySet()) {
            System.out.println(entry.getKey() + "\t" + told(entry.getValue()));
        }
    }

    private static String told(Future<RecordMetadata> future) throws Exception {
        try {
            future.get();
            return "\t";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName() + "\t" + error.getCause().getMessage();
        }
    }

    private static String end(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            return "";
        } catch (KafkaException error) {
            producer.abortTransaction();
            return error.getClass().getSimpleName();
        }
    }
}
