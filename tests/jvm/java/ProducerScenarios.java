import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** What a Java producer can do; each result is read back by a consumer without a group. */
public final class ProducerScenarios {
    public static void main(String[] args) throws Throwable {
        Target.run(ProducerScenarios.class, args);
    }

    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    /** Every codec in a partition of its own; keys, null values, headers and timestamps arrive as they were sent. */
    static void codecs(Target target) throws Exception {
        String topic = target.topic("codecs", CODECS.size());
        String filler = "x".repeat(2000);
        for (int partition = 0; partition < CODECS.size(); partition++) {
            try (var producer = target.producer("compression.type", CODECS.get(partition), "linger.ms", 20)) {
                var sent = new ArrayList<Future<RecordMetadata>>();
                for (int number = 0; number < 50; number++) {
                    String value = number == 7 ? null : filler + number;
                    var record = new ProducerRecord<>(topic, partition, 1000L + number, "k" + number, value);
                    record.headers().add("h", new byte[] {(byte) number});
                    sent.add(producer.send(record));
                }
                producer.flush();
                for (int number = 0; number < 50; number++) {
                    Target.same((long) number, sent.get(number).get().offset());
                }
            }
        }
        List<ConsumerRecord<String, String>> records = target.read(topic, "read_uncommitted");
        Target.same(50 * CODECS.size(), records.size());
        for (ConsumerRecord<String, String> record : records) {
            long number = record.offset();
            Target.same(List.of("k" + number, 1000 + number), List.of(record.key(), record.timestamp()));
            Target.same((byte) number, record.headers().lastHeader("h").value()[0]);
            Target.check(number == 7 ? record.value() == null : record.value().equals(filler + number), "the value of " + number);
        }
    }

    /** acks=0 comes last: its records are lost if the leader of the new partition does not yet know that it is one. */
    static void acks(Target target) throws Exception {
        String topic = target.topic("acks", 2);
        for (String acks : List.of("all", "1", "0")) {
            try (var producer = target.producer("acks", acks, "enable.idempotence", false)) {
                target.send(producer, topic, 20);
            }
        }
        Target.eventually("60 records", () -> target.read(topic, "read_uncommitted").size(), count -> count == 60);
    }

    /** Records of nearly 1 MB. */
    static void large(Target target) throws Exception {
        String topic = target.topic("large", 2);
        try (var producer = target.producer()) {
            for (int number = 0; number < 6; number++) {
                producer.send(new ProducerRecord<>(topic, number % 2, null, ("" + number).repeat(900_000))).get();
            }
        }
        List<ConsumerRecord<String, String>> records = target.read(topic, "read_uncommitted");
        Target.same(6, records.size());
        for (ConsumerRecord<String, String> record : records) {
            Target.same(900_000, record.value().length());
        }
    }

    static void idempotent(Target target) throws Exception {
        String topic = target.topic("idempotent", 3);
        try (var producer = target.producer("enable.idempotence", true, "batch.size", 200)) {
            target.send(producer, topic, 1000);
        }
        List<ConsumerRecord<String, String>> records = target.read(topic, "read_uncommitted");
        Target.same(Target.upTo(1000), Target.numbers(records));
        for (ConsumerRecord<String, String> record : records) {
            Target.same(record.offset() * 3 + record.partition(), Long.parseLong(record.value()));
        }
    }

    /** Commit, abort, offsets inside a transaction, and a second producer of the same id that fences the first. */
    static void transactional(Target target) throws Exception {
        String topic = target.topic("transactional", 2);
        String input = target.topic("input", 1);
        target.send(input, 10);
        String group = target.prefix + "-group";
        var partition = new TopicPartition(input, 0);
        try (var first = target.producer("transactional.id", target.prefix);
                var second = target.producer("transactional.id", target.prefix);
                var consumer = target.consumer("group.id", group)) {
            first.initTransactions();
            first.beginTransaction();
            target.send(first, topic, 10);
            first.commitTransaction();
            first.beginTransaction();
            target.send(first, topic, 10);
            first.abortTransaction();
            consumer.assign(List.of(partition));
            first.beginTransaction();
            target.send(first, topic, 10);
            first.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(7, "seven")), consumer.groupMetadata());
            first.commitTransaction();
            second.initTransactions();
            second.beginTransaction();
            Target.check(isFenced(() -> {
                first.beginTransaction();
                target.send(first, topic, 1);
                first.commitTransaction();
            }), "the first producer is fenced by the second");
            second.commitTransaction();
            Target.same(new OffsetAndMetadata(7, "seven").offset(), consumer.committed(java.util.Set.of(partition)).get(partition).offset());
        }
        var twice = new ArrayList<>(Target.upTo(10));
        twice.addAll(Target.upTo(10));
        twice.sort(null);
        Target.same(twice, Target.numbers(target.read(topic, "read_committed")));
        Target.same(30, target.read(topic, "read_uncommitted").size());
    }

    private interface Step {
        void run() throws Exception;
    }

    private static boolean isFenced(Step step) throws Exception {
        try {
            step.run();
            return false;
        } catch (java.util.concurrent.ExecutionException | KafkaException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException) {
                    return true;
                }
            }
            throw error;
        }
    }
}
