import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** An idempotent producer that sends the values "0" to "COUNT - 1": BOOTSTRAP TOPIC COUNT PER_SECOND. Fails if one is not acknowledged. */
public final class NumberedProducer {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[2]);
        double perSecond = Double.parseDouble(args[3]);
        Map<String, Object> config = Map.of(
            "bootstrap.servers", args[0], "acks", "all", "enable.idempotence", true, "max.in.flight.requests.per.connection", 5,
            "linger.ms", 5, "request.timeout.ms", 8_000, "delivery.timeout.ms", 110_000);
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            long begin = System.nanoTime();
            for (int number = 0; number < count; number++) {
                while (number > (System.nanoTime() - begin) / 1e9 * perSecond) {
                    Thread.sleep(5);
                }
                producer.send(new ProducerRecord<>(args[1], null, "" + number), (sent, error) -> {
                    if (error != null) {
                        failure.set(error);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }
}
