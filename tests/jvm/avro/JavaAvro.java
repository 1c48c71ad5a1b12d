import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.util.RandomData;

/**
 * What Apache Avro's own classes make of schemas and values. One JSON object per line on stdin, one on stdout.
 *
 * <p>{"schema": text, "read": [hex], "write": number, "seed": number} is answered by {"read": [hex of the value as it is
 * written again, or null where it cannot be read], "written": [hex], "in_blocks": [hex]}: random values, whose arrays and
 * maps have no sizes, and the same with sizes; or by {"error": text} where the schema cannot be parsed.
 */
public final class JavaAvro {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode asked) throws IOException {
        ObjectNode answer = JSON.createObjectNode();
        Schema schema;
        try {
            schema = new Schema.Parser().parse(asked.get("schema").asText());
        } catch (RuntimeException error) {
            return answer.put("error", error.toString());
        }
        ArrayNode read = answer.putArray("read");
        for (JsonNode hex : asked.get("read")) {
            read.add(readAndWritten(schema, HexFormat.of().parseHex(hex.asText())));
        }
        ArrayNode written = answer.putArray("written");
        ArrayNode inBlocks = answer.putArray("in_blocks");
        for (Object value : new RandomData(schema, asked.get("write").asInt(), asked.get("seed").asLong())) {
            written.add(written(schema, value, false));
            inBlocks.add(written(schema, value, true));
        }
        return answer;
    }

    private static String readAndWritten(Schema schema, byte[] data) {
        try {
            BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(data, null);
            Object value = new GenericDatumReader<Object>(schema).read(null, decoder);
            return decoder.isEnd() ? written(schema, value, false) : null;
        } catch (IOException | RuntimeException | StackOverflowError | OutOfMemoryError error) {
            return null;
        }
    }

    private static String written(Schema schema, Object value, boolean inBlocks) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        EncoderFactory factory = EncoderFactory.get();
        BinaryEncoder encoder = inBlocks ? factory.blockingBinaryEncoder(out, null) : factory.binaryEncoder(out, null);
        new GenericDatumWriter<Object>(schema).write(value, encoder);
        encoder.flush();
        return HexFormat.of().formatHex(out.toByteArray());
    }
}
