import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/** Records as lines of JSON, both ways. Bytes that are sent are in base64; those that were read are shown as in records.py. */
final class Scripted {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final int MAX_SHOWN = 60;

    private Scripted() {}

    /** SETTING=VALUE from the argument with this index on. */
    static Map<String, Object> settings(String[] args, int from) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", args[0]));
        for (int at = from; at < args.length; at++) {
            String[] setting = args[at].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        return config;
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int partition, JsonNode said) {
        var record = new ProducerRecord<>(topic, partition, bytes(said.get("key")), bytes(said.get("value")));
        said.get("headers").forEach(one -> record.headers().add(one.get(0).asText(), bytes(one.get(1))));
        return record;
    }

    static void tell(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode line = JSON.createObjectNode().put("partition", record.partition()).put("offset", record.offset());
        line.put("key", shown(record.key())).put("value", shown(record.value()));
        var headers = line.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(shown(header.value()));
        }
        System.out.println(line);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText().getBytes(StandardCharsets.US_ASCII));
    }

    private static String shown(byte[] data) {
        if (data == null) {
            return "null";
        }
        if (data.length <= MAX_SHOWN) {
            return HexFormat.of().formatHex(data);
        }
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(data);
            return data.length + " bytes " + HexFormat.of().formatHex(hash).substring(0, 16);
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new AssertionError(error);
        }
    }
}
