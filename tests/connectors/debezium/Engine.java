import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Runs Debezium's engine with the settings of a file until standard input ends.
 *
 * Each record is written to standard output: when it arrived (microseconds since 1970), and topic,
 * key and value, each as its length and its bytes; -1 for null. With a second argument only the last
 * record of each batch is written, with the number of its records as topic.
 */
public class Engine {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileReader file = new FileReader(arguments[0], StandardCharsets.UTF_8)) {
            settings.load(file);
        }
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        DebeziumEngine<ChangeEvent<String, String>> engine =
                DebeziumEngine.create(Json.class)
                        .using(settings)
                        .using((success, message, error) -> {
                            if (!success) {
                                System.err.println(message);
                                if (error != null) error.printStackTrace();
                            }
                        })
                        .notifying((records, committer) -> {
                            Instant at = Instant.now();
                            long now = at.getEpochSecond() * 1_000_000 + at.getNano() / 1000;
                            try {
                                if (arguments.length > 1) {
                                    out.writeLong(now);
                                    write(out, Integer.toString(records.size()));
                                    write(out, null);
                                    write(out, records.get(records.size() - 1).value());
                                }
                                for (ChangeEvent<String, String> each : records) {
                                    committer.markProcessed(each);
                                    if (arguments.length > 1) continue;
                                    out.writeLong(now);
                                    write(out, each.destination());
                                    write(out, each.key());
                                    write(out, each.value());
                                }
                                out.flush();
                            } catch (IOException gone) {
                                System.exit(1);
                            }
                            committer.markBatchFinished();
                        })
                        .build();
        ExecutorService threads = Executors.newSingleThreadExecutor();
        threads.execute(engine);
        while (System.in.read() >= 0) {
        }
        engine.close();
        threads.shutdown();
        System.exit(0);
    }

    private static void write(DataOutputStream out, String text) throws IOException {
        if (text == null) {
            out.writeInt(-1);
            return;
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
