import java.util.Properties;

/** Settings of Kafka's Java clients that all programs share: an address, and strings as keys and values. */
final class ClientSettings {
    static Properties of(String address, String... pairs) {
        Properties found = new Properties();
        found.put("bootstrap.servers", address);
        found.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        found.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        found.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        found.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        for (int at = 0; at < pairs.length; at += 2) {
            found.put(pairs[at], pairs[at + 1]);
        }
        return found;
    }

    private ClientSettings() {}
}
