import java.io.*;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Kafka's own codec of metadata records: reads one in hex from each line, and prints it as JSON and written again. */
public class MetadataOracle {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      try {
        ByteBuffer given = ByteBuffer.wrap(HexFormat.of().parseHex(line));
        ApiMessageAndVersion read = MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(given), given.remaining());
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(read, cache));
        MetadataRecordSerde.INSTANCE.write(read, cache, new ByteBufferAccessor(written));
        out.println(MetadataJsonConverters.writeJson(read.message(), read.version()) + "\t" + HexFormat.of().formatHex(written.array()));
      } catch (RuntimeException error) {
        out.println("unreadable\t" + error.getClass().getSimpleName());
      }
    }
  }
}
