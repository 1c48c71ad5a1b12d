import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer and a consumer that measure how long their records take:
 * BOOTSTRAP TOPIC LARGE_TOPIC PER_SECOND SECONDS [PROPERTIES], the latter a file with further settings of clients.
 * Records are sent on time, however late earlier ones are acknowledged; to LARGE_TOPIC one a second, of 2 MB (gzip).
 * A line for each: "ack", "read" or "large", when it was sent (ms since 1970), how long it took (us; -1: failed).
 */
public final class HonestClient {
    private static final String FILLER = "{\"a\": [" + "1, ".repeat(250) + "1]";
    private static final int LARGE_TIMES = 2600;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Properties MORE = new Properties();
    private static final ConcurrentLinkedQueue<String> LINES = new ConcurrentLinkedQueue<>();

    public static void main(String[] args) throws Exception {
        if (args.length > 5) {
            try (var file = Files.newBufferedReader(Path.of(args[5]))) {
                MORE.load(file);
            }
        }
        String topic = args[1];
        int perSecond = Integer.parseInt(args[3]);
        int count = perSecond * Integer.parseInt(args[4]);
        long deadline = System.nanoTime() + Duration.ofSeconds(Long.parseLong(args[4])).plus(PATIENCE).toNanos();
        var reader = new Thread(() -> read(args[0], topic, count, deadline));
        var partition = new TopicPartition(topic, 0);
        try (var consumer = consumer(args[0])) {
            consumer.assign(List.of(partition));
            from = consumer.position(partition);
        }
        reader.start();
        String large = FILLER + ", \"b\": [" + (FILLER + "}, ").repeat(LARGE_TIMES) + "1]}";
        Map<String, Object> config = config("bootstrap.servers", args[0], "linger.ms", 0, "max.block.ms", 60_000);
        Map<String, Object> zipped = config("bootstrap.servers", args[0], "max.block.ms", 60_000,
            "compression.type", "gzip", "max.request.size", 8 << 20);
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
            var packer = new KafkaProducer<>(zipped, new StringSerializer(), new StringSerializer())) {
            producer.partitionsFor(topic);
            packer.partitionsFor(args[2]);
            long start = System.nanoTime();
            for (int number = 0; number < count; number++) {
                LockSupport.parkNanos(start + number * 1_000_000_000L / perSecond - System.nanoTime());
                send(producer, topic, FILLER + ", \"ms\": " + System.currentTimeMillis() + ", \"ns\": " + System.nanoTime() + "}", "ack");
                if (number % perSecond == 0) {
                    send(packer, args[2], large, "large");
                }
            }
        }
        reader.join(PATIENCE.toMillis());
        LINES.forEach(System.out::println);
    }

    private static volatile long from;

    private static Map<String, Object> config(Object... pairs) {
        var config = new HashMap<String, Object>();
        MORE.forEach((key, value) -> config.put((String) key, value));
        for (int at = 0; at < pairs.length; at += 2) {
            config.put((String) pairs[at], pairs[at + 1]);
        }
        return config;
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String value, String kind) {
        long sentMs = System.currentTimeMillis();
        long sent = System.nanoTime();
        producer.send(new ProducerRecord<>(topic, 0, null, value), (metadata, error) ->
            LINES.add(kind + " " + sentMs + " " + (error == null ? (System.nanoTime() - sent) / 1000 : -1)));
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap) {
        Map<String, Object> config = config("bootstrap.servers", bootstrap, "auto.offset.reset", "latest",
            "enable.auto.commit", false, "fetch.max.wait.ms", 100);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private static void read(String bootstrap, String topic, int count, long deadline) {
        var partition = new TopicPartition(topic, 0);
        try (var consumer = consumer(bootstrap)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, from);
            for (int seen = 0; seen < count && System.nanoTime() < deadline; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    long now = System.nanoTime();
                    seen++;
                    String value = record.value();
                    LINES.add("read " + number(value, "\"ms\": ") + " " + (now - number(value, "\"ns\": ")) / 1000);
                }
            }
        }
    }

    private static long number(String value, String name) {
        int at = value.indexOf(name) + name.length();
        int end = at;
        while (Character.isDigit(value.charAt(end))) {
            end++;
        }
        return Long.parseLong(value.substring(at, end));
    }
}
