import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams repartitions and counts records, as a streams group (KIP-1071): it has a repartition topic and a
 * changelog, which the broker creates. Prints "running", or the exception that ends it.
 *
 * BOOTSTRAP TOPIC NAME PARTITIONS SECONDS FOLDER [SETTING=VALUE...]; PARTITIONS of the repartition topic, 0: not said
 */
public final class CountedRecords {
    public static void main(String[] args) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("application.id", args[2]);
        settings.put("state.dir", args[5]);
        settings.put("group.protocol", "streams");
        for (int at = 6; at < args.length; at++) {
            String[] pair = args[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        var strings = Serdes.String();
        var repartitioned = Repartitioned.with(strings, strings).withName("again");
        int partitions = Integer.parseInt(args[3]);
        var builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(strings, strings))
            .repartition(partitions == 0 ? repartitioned : repartitioned.withNumberOfPartitions(partitions))
            .groupByKey(Grouped.with(strings, strings))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(strings).withValueSerde(Serdes.Long()));
        var ended = new CountDownLatch(1);
        var why = new AtomicReference<Throwable>();
        try (var streams = new KafkaStreams(builder.build(), settings)) {
            streams.setUncaughtExceptionHandler(error -> {
                why.set(error);
                ended.countDown();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            boolean isUp = false;
            for (int wait = 0; wait < 10 * Integer.parseInt(args[4]) && !isUp && ended.getCount() > 0; wait++) {
                ended.await(100, TimeUnit.MILLISECONDS);
                isUp = streams.state() == KafkaStreams.State.RUNNING
                    && streams.metadataForLocalThreads().stream().anyMatch(thread -> !thread.activeTasks().isEmpty());
            }
            System.out.println(isUp ? "running" : why.get() == null ? "state " + streams.state() : cause(why.get()));
            streams.close(Duration.ofSeconds(5));
        }
    }

    private static String cause(Throwable error) {
        while (error.getCause() != null) {
            error = error.getCause();
        }
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }
}
