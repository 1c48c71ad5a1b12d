import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients that run while something happens to the cluster: produce BOOTSTRAP TOPIC SIGNALS COUNT PER_SECOND, or
 * consume BOOTSTRAP TOPIC SIGNALS LIMIT_S. Values are the numbers from 0 on. SIGNALS is a folder: the producer sends
 * COUNT records at least, and goes on until there is a file "stop" in it; then it writes how many there are to "sent".
 */
public final class Traffic {
    public static void main(String[] args) throws Exception {
        Path signals = Path.of(args[3]);
        int number = Integer.parseInt(args[4]);
        if (args[0].equals("produce")) {
            produce(args[1], args[2], signals, number, Integer.parseInt(args[5]));
        } else {
            consume(args[1], args[2], signals, number);
        }
    }

    private static void produce(String bootstrap, String topic, Path signals, int count, int perSecond) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "enable.idempotence", true, "linger.ms", 5,
            "request.timeout.ms", 10_000, "delivery.timeout.ms", 180_000, "max.block.ms", 120_000, "metadata.max.age.ms", 3000);
        AtomicInteger acked = new AtomicInteger();
        int number = 0;
        AtomicReference<Exception> failure = new AtomicReference<>();
        long start = System.nanoTime();
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (; number < count || !Files.exists(signals.resolve("stop")); number++) {
                LockSupport.parkNanos(start + number * 1_000_000_000L / perSecond - System.nanoTime());
                producer.send(new ProducerRecord<>(topic, "" + number, "" + number), (metadata, error) -> {
                    if (error == null) {
                        acked.incrementAndGet();
                    } else {
                        failure.compareAndSet(null, error);
                    }
                });
            }
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        Path written = Files.writeString(signals.resolve("sending"), "" + number);
        Files.move(written, signals.resolve("sent"), StandardCopyOption.ATOMIC_MOVE);
        System.out.println("acked " + acked);
    }

    /** Two members of one group, each in a thread. */
    private static void consume(String bootstrap, String topic, Path signals, int limitS) throws Exception {
        Seen seen = new Seen(signals);
        long deadline = System.nanoTime() + limitS * 1_000_000_000L;
        List<Thread> members = new ArrayList<>();
        for (int member = 0; member < 2; member++) {
            members.add(new Thread(() -> poll(bootstrap, topic, seen, deadline)));
        }
        members.forEach(Thread::start);
        for (Thread member : members) {
            member.join();
        }
        seen.report();
    }

    private static void poll(String bootstrap, String topic, Seen seen, long deadline) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", topic + "-group",
            "auto.offset.reset", "earliest", "auto.commit.interval.ms", 500, "request.timeout.ms", 10_000,
            "default.api.timeout.ms", 30_000, "metadata.max.age.ms", 3000));
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!seen.isComplete() && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    seen.add(Integer.parseInt(record.value()));
                }
            }
        }
    }

    /** Which numbers were seen. */
    static final class Seen {
        private final Path sent;
        private final BitSet numbers = new BitSet();
        private int distinct;
        private int total;

        Seen(Path signals) {
            sent = signals.resolve("sent");
        }

        synchronized void add(int number) {
            total++;
            if (!numbers.get(number)) {
                numbers.set(number);
                distinct++;
            }
        }

        synchronized boolean isComplete() {
            try {
                return Files.exists(sent) && distinct >= Integer.parseInt(Files.readString(sent));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        synchronized void report() {
            System.out.println("seen " + distinct + ", again " + (total - distinct));
            if (!isComplete()) {
                throw new AssertionError("the first that was not seen is " + numbers.nextClearBit(0));
            }
        }
    }
}
