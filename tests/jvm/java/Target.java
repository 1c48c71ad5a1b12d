import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.function.Predicate;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a scenario talks to: the address it was given, and names that no other scenario uses. */
final class Target {
    static final Duration LIMIT = Duration.ofSeconds(20);

    final String bootstrap;
    final String prefix;
    final int nodes;

    private final Properties security;

    private Target(String[] args) throws IOException {
        bootstrap = args[1];
        prefix = args[2];
        nodes = Integer.parseInt(args[3]);
        security = new Properties();
        try (var file = Files.newBufferedReader(Path.of(args[4]))) {
            security.load(file);
        }
    }

    /** Runs the static method of {@code scenarios} that the arguments name: SCENARIO BOOTSTRAP PREFIX NODES PROPERTIES. */
    static void run(Class<?> scenarios, String[] args) throws Throwable {
        var method = scenarios.getDeclaredMethod(args[0], Target.class);
        try {
            method.invoke(null, new Target(args));
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw error.getCause();
        }
    }

    static void check(boolean holds, String claim) {
        if (!holds) {
            throw new AssertionError("not so: " + claim);
        }
    }

    static void same(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    /** Asks until the answer is as wished, and is no error: what one broker did, the others learn a little later. */
    static <T> T eventually(String wish, Callable<T> question, Predicate<T> isGranted) throws Exception {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (true) {
            Object found;
            try {
                T answer = question.call();
                if (isGranted.test(answer)) {
                    return answer;
                }
                found = answer;
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof RetriableException)) {
                    throw error;
                }
                found = error;
            }
            check(System.nanoTime() < deadline, wish + "; the last answer was " + found);
            Thread.sleep(50);
        }
    }

    /** The answer to what a broker may refuse at first because it does not know yet what another one did. */
    static <T> T insist(Callable<KafkaFuture<T>> request) throws Exception {
        return eventually("an answer", () -> request.call().get(), answer -> true);
    }

    Map<String, Object> config(Object... pairs) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "client.id", prefix));
        security.forEach((name, value) -> config.put((String) name, value));
        for (int at = 0; at < pairs.length; at += 2) {
            config.put((String) pairs[at], pairs[at + 1]);
        }
        return config;
    }

    Admin admin() {
        return Admin.create(config("request.timeout.ms", 10_000, "default.api.timeout.ms", (int) LIMIT.toMillis()));
    }

    /** Creates a topic and waits until its leaders know that they are, which is a little after the answer to CreateTopics. */
    String topic(String suffix, int partitions) throws Exception {
        String name = prefix + "-" + suffix;
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, Optional.of(partitions), Optional.empty()))).all().get();
            Map<TopicPartition, OffsetSpec> questions = new HashMap<>();
            for (int partition = 0; partition < partitions; partition++) {
                questions.put(new TopicPartition(name, partition), OffsetSpec.latest());
            }
            insist(() -> admin.listOffsets(questions).all());
        }
        return name;
    }

    KafkaProducer<String, String> producer(Object... pairs) {
        return new KafkaProducer<>(config(pairs), new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(Object... pairs) {
        Map<String, Object> config = config("auto.offset.reset", "earliest", "enable.auto.commit", false, "fetch.max.wait.ms", 50);
        config.putAll(config(pairs));
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** Values "0" to "count - 1", in turn to all partitions. */
    List<RecordMetadata> send(KafkaProducer<String, String> producer, String topic, int count) throws Exception {
        var futures = new ArrayList<java.util.concurrent.Future<RecordMetadata>>();
        int partitions = producer.partitionsFor(topic).size();
        for (int number = 0; number < count; number++) {
            futures.add(producer.send(new ProducerRecord<>(topic, number % partitions, "k" + number, "" + number)));
        }
        producer.flush();
        var sent = new ArrayList<RecordMetadata>();
        for (var future : futures) {
            sent.add(future.get());
        }
        return sent;
    }

    void send(String topic, int count) throws Exception {
        try (var producer = producer()) {
            send(producer, topic, count);
        }
    }

    /** All records between the beginning and the end of the topic, read without a group. */
    List<ConsumerRecord<String, String>> read(String topic, String isolation) {
        try (var consumer = consumer("isolation.level", isolation)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            long deadline = System.nanoTime() + LIMIT.toNanos();
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                check(System.nanoTime() < deadline, "the end of " + topic + " is reached in time");
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
            return records;
        }
    }

    static List<Integer> numbers(Iterable<ConsumerRecord<String, String>> records) {
        List<Integer> numbers = new ArrayList<>();
        records.forEach(record -> numbers.add(Integer.parseInt(record.value())));
        numbers.sort(null);
        return numbers;
    }

    static List<Integer> upTo(int count) {
        return Arrays.asList(java.util.stream.IntStream.range(0, count).boxed().toArray(Integer[]::new));
    }
}
