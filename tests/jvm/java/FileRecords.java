import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One producer of records whose values are files: BOOTSTRAP TOPIC [SETTING=VALUE]...
 *
 * <p>On stdin the path of one file per line, which is the record's key too; an empty line flushes, and commits where
 * there is a transactional.id. On stdout for each record, separated by tabs: path, offset or -1, the exception's class, its
 * message.
 */
public final class FileRecords {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[0]));
        for (int at = 2; at < args.length; at++) {
            String[] setting = args[at].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        boolean isTransactional = config.containsKey("transactional.id");
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
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
                if (isTransactional) {
                    producer.commitTransaction();
                }
                wave.clear();
            }
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, List<String> wave) throws Exception {
        Map<String, Future<RecordMetadata>> sent = new LinkedHashMap<>();
        for (String path : wave) {
            byte[] key = path.getBytes(StandardCharsets.UTF_8);
            sent.put(path, producer.send(new ProducerRecord<>(topic, 0, key, Files.readAllBytes(Path.of(path)))));
        }
        producer.flush();
        for (var entry : sent.entrySet()) {
            System.out.println(entry.getKey() + "\t" + result(entry.getValue()));
        }
    }

    private static String result(Future<RecordMetadata> future) throws Exception {
        try {
            return future.get().offset() + "\t\t";
        } catch (ExecutionException error) {
            return "-1\t" + error.getCause().getClass().getSimpleName() + "\t" + error.getCause().getMessage();
        }
    }
}
