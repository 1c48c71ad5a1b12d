import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Repartitioned;

/**
 * Takes the records of a topic through a repartition topic, whose records Kafka Streams deletes once they are committed.
 * BOOTSTRAP TOPIC APPLICATION COUNT LIMIT_S STATE_FOLDER [SETTING=VALUE]... Ends with 0 once COUNT records have come out of
 * it; each is a line on stdout: its key and the size of its value.
 */
public final class RepartitionedRecords {
    private RepartitionedRecords() {}

    public static void main(String[] args) throws Exception {
        var config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("application.id", args[2]);
        config.put("state.dir", args[5]);
        for (int at = 6; at < args.length; at++) {
            String[] setting = args[at].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        int count = Integer.parseInt(args[3]);
        var seen = new AtomicInteger();
        var builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .repartition(Repartitioned.with(Serdes.String(), Serdes.ByteArray()).withName("r").withNumberOfPartitions(1))
            .foreach((key, value) -> {
                System.out.println(key + " " + value.length);
                seen.incrementAndGet();
            });
        try (var streams = new KafkaStreams(builder.build(), config)) {
            streams.start();
            long deadline = System.nanoTime() + Duration.ofSeconds(Integer.parseInt(args[4])).toNanos();
            while (seen.get() < count && System.nanoTime() < deadline) {
                Thread.sleep(100);
            }
        }
        System.exit(seen.get() < count ? 1 : 0);
    }
}
