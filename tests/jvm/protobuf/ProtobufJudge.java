import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.InvalidProtocolBufferException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;

/**
 * Says of bytes whether they are a message, as Google's Java implementation decides.
 *
 * <p>Each line of the input is a file descriptor, the name of a type in it, and any number of values, with blanks between
 * and in base64 (the name as it is; "-" is an empty value). For each there is a line with "1" or "0" for every value: it
 * can be parsed, with all that is required.
 */
public final class ProtobufJudge {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split(" ");
            FileDescriptorProto file = FileDescriptorProto.parseFrom(Base64.getDecoder().decode(parts[0]));
            Descriptor type = FileDescriptor.buildFrom(file, new FileDescriptor[0]).findMessageTypeByName(parts[1]);
            StringBuilder verdicts = new StringBuilder();
            for (int at = 2; at < parts.length; at++) {
                byte[] value = parts[at].equals("-") ? new byte[0] : Base64.getDecoder().decode(parts[at]);
                verdicts.append(isMessage(type, value) ? '1' : '0');
            }
            System.out.println(verdicts);
            System.out.flush();
        }
    }

    private static boolean isMessage(Descriptor type, byte[] value) {
        try {
            DynamicMessage.parseFrom(type, value);
            return true;
        } catch (InvalidProtocolBufferException error) {
            return false;
        }
    }
}
