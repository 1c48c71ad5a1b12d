import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer of one partition that does what it is told, one step after the other. BOOTSTRAP TOPIC PARTITION GROUP SETTINGS
 * STEP... With -1 in place of the partition it is a member of the group, in a topic of one partition.
 *
 * <p>SETTINGS are NAME=VALUE,... A step that has a result prints one line: an offset, or the parts of a record or a
 * committed offset separated by tabs; "none" where there is nothing; "error" and the class of what was thrown.
 */
public final class SteppedConsumer {
    private static final Duration LIMIT = Duration.ofSeconds(20);
    private static final Duration QUIET = Duration.ofMillis(700);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TopicPartition partition;
    private final Deque<ConsumerRecord<byte[], byte[]>> polled = new ArrayDeque<>();

    private SteppedConsumer(Map<String, Object> config, TopicPartition partition) {
        this.consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        this.partition = partition;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[0], "group.id", args[3],
            "auto.offset.reset", "earliest", "enable.auto.commit", "false", "fetch.max.wait.ms", "50", "max.poll.records", "1"));
        for (String setting : args[4].isEmpty() ? new String[0] : args[4].split(",")) {
            config.put(setting.split("=", 2)[0], setting.split("=", 2)[1]);
        }
        boolean isMember = args[2].equals("-1");
        var stepped = new SteppedConsumer(config, new TopicPartition(args[1], isMember ? 0 : Integer.parseInt(args[2])));
        try (stepped.consumer) {
            if (isMember) {
                stepped.consumer.subscribe(List.of(args[1]));
            } else {
                stepped.consumer.assign(Set.of(stepped.partition));
            }
            for (String step : List.of(args).subList(5, args.length)) {
                stepped.run(step);
            }
        }
    }

    private void run(String step) throws Exception {
        String[] words = step.split(" ", 3);
        try {
            switch (words[0]) {
                case "poll" -> tell(poll(LIMIT));
                case "rest" -> rest();
                case "seek" -> consumer.seek(partition, Long.parseLong(words[1]));
                case "seek_time" -> consumer.seek(partition,
                    consumer.offsetsForTimes(Map.of(partition, Long.parseLong(words[1]))).get(partition).offset());
                case "begin" -> consumer.seekToBeginning(Set.of(partition));
                case "end" -> consumer.seekToEnd(Set.of(partition));
                case "unassign" -> consumer.unsubscribe();
                case "assign" -> consumer.assign(Set.of(partition));
                case "commit" -> commit(words);
                case "commit_within" -> consumer.commitSync(Map.of(partition, new OffsetAndMetadata(0)),
                    Duration.ofMillis(Long.parseLong(words[1])));
                case "commit_async" -> commitAsync();
                case "position" -> System.out.println(consumer.position(partition));
                case "committed" -> tell(consumer.committed(Set.of(partition)).get(partition));
                default -> throw new AssertionError(step);
            }
        } catch (RuntimeException error) {
            System.out.println("error\t" + error.getClass().getSimpleName());
        }
    }

    private void commit(String[] words) {
        if (words.length == 1) {
            consumer.commitSync();
        } else {
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(Long.parseLong(words[1]), words.length > 2 ? words[2] : "")));
        }
    }

    private void commitAsync() throws Exception {
        var done = new CompletableFuture<OffsetAndMetadata>();
        consumer.commitAsync((offsets, error) -> {
            if (error == null) {
                done.complete(offsets.get(partition));
            } else {
                done.completeExceptionally(error);
            }
        });
        while (!done.isDone()) {
            consumer.poll(Duration.ofMillis(10)).forEach(polled::add);
        }
        tell(done.get(LIMIT.toMillis(), TimeUnit.MILLISECONDS));
    }

    /** The next record; null if none comes in this time. */
    private ConsumerRecord<byte[], byte[]> poll(Duration limit) {
        long deadline = System.nanoTime() + limit.toNanos();
        while (polled.isEmpty() && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(50)).forEach(polled::add);
        }
        return polled.poll();
    }

    /** All records up to the end of the log. */
    private void rest() {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        long end = consumer.endOffsets(Set.of(partition)).get(partition);
        while ((consumer.position(partition) < end || !polled.isEmpty()) && System.nanoTime() < deadline) {
            var record = poll(QUIET);
            if (record != null) {
                tell(record);
            }
        }
        System.out.println("end\t" + consumer.position(partition));
    }

    private static void tell(ConsumerRecord<byte[], byte[]> record) {
        if (record == null) {
            System.out.println("none");
            return;
        }
        String headers = StreamSupport.stream(record.headers().spliterator(), false)
            .map(header -> hex(header.key().getBytes(StandardCharsets.UTF_8)) + "=" + hex(header.value()))
            .collect(Collectors.joining("\t"));
        System.out.println(String.join("\t", "record", Long.toString(record.offset()), hex(record.value()), headers));
    }

    private static void tell(OffsetAndMetadata committed) {
        System.out.println(committed == null ? "none" : committed.offset() + "\t" + committed.metadata());
    }

    private static String hex(byte[] data) {
        return data == null ? "null" : HexFormat.of().formatHex(data);
    }
}
