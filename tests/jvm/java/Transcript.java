import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;

/** What somebody was called with or told, a line of JSON each, appended to a file that others append to as well. */
final class Transcript {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path file;
    private final String who;

    Transcript(String file, String who) {
        this.file = Path.of(file);
        this.who = who;
    }

    void write(String hook, Object... pairs) {
        Map<String, Object> line = new LinkedHashMap<>(Map.of("who", who, "hook", hook));
        for (int at = 0; at < pairs.length; at += 2) {
            line.put((String) pairs[at], pairs[at + 1]);
        }
        try {
            byte[] bytes = (JSON.writeValueAsString(line) + "\n").getBytes(StandardCharsets.UTF_8);
            Files.write(file, bytes, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (JsonProcessingException error) {
            throw new AssertionError(error);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.ISO_8859_1);
    }

    static String text(byte[] bytes) {
        return bytes == null ? "" : new String(bytes, StandardCharsets.ISO_8859_1);
    }

    /** Null stays null. */
    static String whole(byte[] bytes) {
        return bytes == null ? null : text(bytes);
    }

    /** Kafka's error code, null for none. */
    static Integer code(Exception exception) {
        return exception == null ? null : (int) Errors.forException(exception).code();
    }

    static boolean isReadOnly(Headers headers) {
        try {
            headers.add("late", null);
            return false;
        } catch (IllegalStateException error) {
            return true;
        }
    }

    static List<List<String>> of(Headers headers) {
        List<List<String>> pairs = new ArrayList<>();
        for (Header header : headers) {
            pairs.add(Arrays.asList(header.key(), whole(header.value())));
        }
        return pairs;
    }

    static List<Map<String, Object>> of(ConsumerRecords<byte[], byte[]> records) {
        List<Map<String, Object>> lines = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("topic", record.topic());
            line.put("partition", record.partition());
            line.put("offset", record.offset());
            line.put("timestamp", record.timestamp());
            line.put("append_time", record.timestampType() == TimestampType.LOG_APPEND_TIME);
            line.put("leader_epoch", record.leaderEpoch().orElse(-1));
            line.put("key", whole(record.key()));
            line.put("value", whole(record.value()));
            line.put("key_size", record.serializedKeySize());
            line.put("value_size", record.serializedValueSize());
            line.put("headers", of(record.headers()));
            lines.add(line);
        }
        return lines;
    }

    /** By topic and partition. Null stays null. */
    static List<List<Object>> of(Map<TopicPartition, OffsetAndMetadata> offsets) {
        if (offsets == null) {
            return null;
        }
        List<List<Object>> lines = new ArrayList<>();
        offsets.forEach((place, one) -> lines.add(
                List.of(place.topic(), place.partition(), one.offset(), one.metadata(), one.leaderEpoch().orElse(-1))));
        lines.sort((one, other) -> (one.get(0) + "-" + one.get(1)).compareTo(other.get(0) + "-" + other.get(1)));
        return lines;
    }
}
