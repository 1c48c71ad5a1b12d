import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Producers that send until there is a file "stop": BOOTSTRAP TOPIC FOLDER CLIENTS PER_SECOND [KEY=VALUE ...].
 * Each sends PER_SECOND records a second, with the values "java-CLIENT-NUMBER". Prints what became of them: "sent N", "acked N",
 * "slowest MS", and "failed EXCEPTION N" for each kind.
 */
public final class PacedProducers {
    private static final class Outcome {
        final AtomicInteger sent = new AtomicInteger();
        final AtomicInteger acked = new AtomicInteger();
        final AtomicLong slowestNs = new AtomicLong();
        final Map<String, AtomicInteger> failed = new ConcurrentHashMap<>();
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[0], "linger.ms", 5));
        for (int at = 5; at < args.length; at++) {
            String[] pair = args[at].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        Path stop = Path.of(args[2]).resolve("stop");
        var outcome = new Outcome();
        List<Thread> threads = new ArrayList<>();
        for (int client = 0; client < Integer.parseInt(args[3]); client++) {
            String name = "java-" + client;
            threads.add(new Thread(() -> send(config, args[1], name, stop, Integer.parseInt(args[4]), outcome)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("sent " + outcome.sent);
        System.out.println("acked " + outcome.acked);
        System.out.println("slowest " + outcome.slowestNs.get() / 1_000_000);
        outcome.failed.forEach((kind, count) -> System.out.println("failed " + kind + " " + count));
    }

    private static void send(Map<String, Object> config, String topic, String name, Path stop, int perSecond, Outcome outcome) {
        long start = System.nanoTime();
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; !Files.exists(stop); number++) {
                LockSupport.parkNanos(start + number * 1_000_000_000L / perSecond - System.nanoTime());
                long began = System.nanoTime();
                outcome.sent.incrementAndGet();
                producer.send(new ProducerRecord<>(topic, name + "-" + number), (metadata, error) -> {
                    outcome.slowestNs.accumulateAndGet(System.nanoTime() - began, Math::max);
                    if (error == null) {
                        outcome.acked.incrementAndGet();
                    } else {
                        outcome.failed.computeIfAbsent(error.getClass().getSimpleName(), kind -> new AtomicInteger()).incrementAndGet();
                    }
                });
            }
        }
    }
}
