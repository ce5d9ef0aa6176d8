// The Java client, driven from the command line: one verb per run, one line of output per finding.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

public final class Drive {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        for (String each : arguments[2].split(",")) {
            String[] pair = each.split("=", 2);
            if (pair.length == 2) {
                settings.put(pair[0], pair[1]);
            }
        }
        switch (arguments[1]) {
            case "roundtrip" -> {
                produce(settings, arguments[3], Integer.parseInt(arguments[4]));
                consume(settings, arguments[3], Integer.parseInt(arguments[4]));
            }
            case "rebalance" -> rebalance(settings, arguments[3]);
            case "admin" -> admin(settings, arguments[3]);
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static void produce(Properties settings, String topic, int count) throws Exception {
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (var producer = new KafkaProducer<String, String>(settings)) {
            List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                var event = new ProducerRecord<>(topic, "k" + number, "v" + number);
                event.headers().add("h", new byte[] {1});
                sent.add(producer.send(event));
            }
            for (var each : sent) {
                each.get();
            }
        }
        System.out.println("produced " + count);
    }

    private static KafkaConsumer<String, String> consumer(Properties settings) {
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.putIfAbsent("auto.offset.reset", "earliest");
        settings.putIfAbsent("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings);
    }

    private static List<ConsumerRecord<String, String>> take(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (found.size() < count && System.nanoTime() < until) {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
        }
        return found;
    }

    private static void consume(Properties settings, String topic, int count) {
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            for (var each : take(consumer, count)) {
                System.out.println("event " + each.key() + " " + each.value() + " "
                        + each.headers().lastHeader("h").value().length);
            }
            consumer.commitSync();
            long committed = 0;
            for (var each : consumer.committed(consumer.assignment()).values()) {
                committed += each == null ? 0 : each.offset();
            }
            System.out.println("committed " + committed);
        }
    }

    private static void rebalance(Properties settings, String topic) throws Exception {
        try (var first = consumer(settings); var second = consumer(settings)) {
            produce(copy(settings), topic, 10);
            first.subscribe(List.of(topic));
            second.subscribe(List.of(topic));
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (System.nanoTime() < until) {
                first.poll(Duration.ofMillis(50));
                second.poll(Duration.ofMillis(50));
                if (first.assignment().size() == 2 && second.assignment().size() == 2) {
                    System.out.println("shared");
                    break;
                }
            }
            second.unsubscribe();
            while (System.nanoTime() < until && first.assignment().size() < 4) {
                first.poll(Duration.ofMillis(50));
            }
            System.out.println("alone with " + first.assignment().size());
        }
    }

    private static void admin(Properties settings, String topic) throws Exception {
        try (var admin = Admin.create(settings)) {
            System.out.println("nodes " + admin.describeCluster().nodes().get().size());
            var wish = new NewTopic(topic, Optional.of(2), Optional.empty());
            admin.createTopics(Set.of(wish.configs(Map.of("retention.ms", "60000")))).all().get();
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            var described = admin.describeTopics(Set.of(topic)).allTopicNames().get().get(topic);
            System.out.println("partitions " + described.partitions().size());
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "70000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, Set.of(change))).all().get();
            var configs = admin.describeConfigs(Set.of(resource)).all().get().get(resource);
            System.out.println("retention " + configs.get("retention.ms").value());
            System.out.println("listed " + admin.listTopics().names().get().contains(topic));
            produce(copy(settings), topic, 10);
            var place = new TopicPartition(topic, 0);
            for (var spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp())) {
                long offset = admin.listOffsets(Map.of(place, spec)).partitionResult(place).get().offset();
                System.out.println(spec.getClass().getSimpleName() + " " + (offset >= 0));
            }
            var dirs = admin.describeLogDirs(Set.of(1)).allDescriptions().get().get(1);
            long size = dirs.values().stream().flatMap(it -> it.replicaInfos().entrySet().stream())
                    .filter(it -> it.getKey().topic().equals(topic)).mapToLong(it -> it.getValue().size()).sum();
            System.out.println("stored " + (size > 0));
            var trimmed = admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(1)));
            System.out.println("start " + trimmed.lowWatermarks().get(place).get().lowWatermark());
            var resources = admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions());
            System.out.println("resources " + resources.all().get().contains(resource));
            System.out.println("groups " + admin.listGroups().all().get().stream()
                    .anyMatch(it -> it.groupId().equals("java.gzip")));
            var cursors = admin.listConsumerGroupOffsets("java.gzip").partitionsToOffsetAndMetadata().get();
            admin.deleteConsumerGroupOffsets("java.gzip", cursors.keySet()).all().get();
            var left = admin.listConsumerGroupOffsets("java.gzip").partitionsToOffsetAndMetadata().get();
            System.out.println("cursors " + !cursors.isEmpty() + " " + left.size());
            admin.deleteTopics(Set.of(topic)).all().get();
            System.out.println("listed " + admin.listTopics().names().get().contains(topic));
        }
    }

    private static Properties copy(Properties settings) {
        Properties found = new Properties();
        found.putAll(settings);
        found.put("enable.idempotence", "false");
        return found;
    }
}
