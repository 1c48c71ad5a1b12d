import java.util.HexFormat;
import org.jose4j.base64url.Base64Url;
import org.jose4j.jwa.AlgorithmConstraints;
import org.jose4j.jwk.JsonWebKey;
import org.jose4j.jwk.PublicJsonWebKey;
import org.jose4j.jws.JsonWebSignature;

/** Signs and verifies with jose4j, which Kafka's clients have. Each argument is one task; prints a line for each. */
public final class SignedValues {
    private static final String PLAIN = "b64";

    public static void main(String[] arguments) throws Exception {
        for (String task : arguments) {
            String[] parts = task.split("\t");
            System.out.println(parts[0].equals("sign") ? sign(parts) : verify(parts));
        }
    }

    /** Algorithm, form (attached, detached, plain), value in hex, key. */
    private static String sign(String[] parts) throws Exception {
        PublicJsonWebKey key = PublicJsonWebKey.Factory.newPublicJwk(parts[4]);
        JsonWebSignature jws = new JsonWebSignature();
        jws.setAlgorithmHeaderValue(parts[1]);
        jws.setKeyIdHeaderValue(key.getKeyId());
        jws.setKey(key.getPrivateKey());
        jws.setPayloadBytes(HexFormat.of().parseHex(parts[3]));
        if (parts[2].equals("plain")) {
            jws.getHeaders().setObjectHeaderValue(PLAIN, false);
            jws.setCriticalHeaderNames(PLAIN);
        }
        return parts[2].equals("attached") ? jws.getCompactSerialization() : jws.getDetachedContentCompactSerialization();
    }

    /** JWS, "detached" or "attached", value in hex, key. */
    private static String verify(String[] parts) throws Exception {
        JsonWebKey key = JsonWebKey.Factory.newJwk(parts[4]);
        JsonWebSignature jws = new JsonWebSignature();
        jws.setAlgorithmConstraints(AlgorithmConstraints.NO_CONSTRAINTS);
        jws.setCompactSerialization(parts[1]);
        if (parts[2].equals("detached")) {
            byte[] value = HexFormat.of().parseHex(parts[3]);
            if (jws.getObjectHeader(PLAIN) == null) {
                jws.setEncodedPayload(Base64Url.encode(value));
            } else {
                jws.setPayloadBytes(value);
            }
        }
        jws.setKey(key.getKey());
        return Boolean.toString(jws.verifySignature());
    }
}
