// Share groups of the Java client: one verb per run, one line of output per finding.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

public final class Share {
    private static final Duration SHORT = Duration.ofMillis(200);
    private static final long PATIENCE_MS = 60_000;
    private static String address;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        String name = arguments[2];
        prepare(name);
        switch (arguments[1]) {
            case "implicit" -> implicit(name);
            case "explicit" -> explicit(name);
            case "several" -> several(name);
            case "administer" -> administer(name);
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static Properties settings(String... pairs) {
        return ClientSettings.of(address, pairs);
    }

    private static void prepare(String name) throws Exception {
        try (var admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic(name, 2, (short) 1))).all().get();
            var group = new ConfigResource(ConfigResource.Type.GROUP, name);
            Collection<AlterConfigOp> changes = List.of(
                    set("share.auto.offset.reset", "earliest"),
                    set("share.record.lock.duration.ms", "45000"));
            admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
        }
    }

    private static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    private static void produce(String topic, int count) {
        try (var producer = new KafkaProducer<String, String>(settings())) {
            for (int at = 0; at < count; at++) {
                producer.send(new ProducerRecord<>(topic, at % 2, null, "" + at));
            }
        }
    }

    // In one batch, so that one poll returns them all.
    private static void produceTogether(String topic, int count) {
        try (var producer = new KafkaProducer<String, String>(settings("linger.ms", "60000"))) {
            for (int at = 0; at < count; at++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "" + at));
            }
        }
    }

    private static KafkaShareConsumer<String, String> consumer(String name, String... pairs) {
        Properties settings = settings(pairs);
        settings.put("group.id", name);
        var found = new KafkaShareConsumer<String, String>(settings);
        found.subscribe(List.of(name));
        return found;
    }

    private static List<ConsumerRecord<String, String>> take(
            KafkaShareConsumer<String, String> consumer, int least) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long until = System.currentTimeMillis() + PATIENCE_MS;
        while (found.size() < least && System.currentTimeMillis() < until) {
            consumer.poll(SHORT).forEach(found::add);
        }
        return found;
    }

    private static void implicit(String name) {
        produce(name, 100);
        try (var consumer = consumer(name)) {
            var found = take(consumer, 100);
            Set<String> values = new TreeSet<>();
            found.forEach(each -> values.add(each.value()));
            System.out.println("taken " + found.size() + " different " + values.size());
            System.out.println("refused " + refused(consumer.commitSync()));
        }
        produce(name, 10);
        try (var consumer = consumer(name)) {
            System.out.println("then " + take(consumer, 10).size());
        }
    }

    private static long refused(Map<?, Optional<org.apache.kafka.common.KafkaException>> found) {
        return found.values().stream().filter(Optional::isPresent).count();
    }

    private static void explicit(String name) {
        produceTogether(name, 4);
        try (var consumer = consumer(name, "share.acknowledgement.mode", "explicit")) {
            for (var each : take(consumer, 4)) {
                consumer.acknowledge(each, AcknowledgeType.RENEW);
            }
            System.out.println("refused " + refused(consumer.commitSync()));
            Map<String, ConsumerRecord<String, String>> first = new TreeMap<>();
            take(consumer, 4).forEach(each -> first.put(each.value(), each));
            System.out.println("locked for " + consumer.acquisitionLockTimeoutMs().get());
            consumer.acknowledge(first.get("0"), AcknowledgeType.ACCEPT);
            consumer.acknowledge(first.get("1"), AcknowledgeType.RELEASE);
            consumer.acknowledge(first.get("2"), AcknowledgeType.REJECT);
            consumer.acknowledge(first.get("3"), AcknowledgeType.ACCEPT);
            System.out.println("refused " + refused(consumer.commitSync()));
            for (var each : take(consumer, 1)) {
                System.out.println("again " + each.value() + " " + each.deliveryCount().get());
                consumer.acknowledge(each, AcknowledgeType.ACCEPT);
            }
            System.out.println("refused " + refused(consumer.commitSync()));
        }
    }

    private static void several(String name) {
        String[] strict = {"share.acquire.mode", "record_limit", "max.poll.records", "5"};
        try (var first = consumer(name, strict); var second = consumer(name, strict)) {
            produce(name, 40);
            List<String> values = new ArrayList<>();
            int[] counts = {0, 0};
            long until = System.currentTimeMillis() + PATIENCE_MS;
            while (values.size() < 40 && System.currentTimeMillis() < until) {
                for (var each : first.poll(SHORT)) {
                    values.add(each.value());
                    counts[0]++;
                }
                for (var each : second.poll(SHORT)) {
                    values.add(each.value());
                    counts[1]++;
                }
            }
            System.out.println("different " + new TreeSet<>(values).size());
            System.out.println("both " + Arrays.stream(counts).allMatch(each -> each >= 5));
        }
    }

    private static void administer(String name) throws Exception {
        produce(name, 10);
        try (var admin = Admin.create(settings())) {
            try (var consumer = consumer(name)) {
                take(consumer, 10);
                consumer.commitSync();
                var group = admin.describeShareGroups(List.of(name)).all().get().get(name);
                var member = group.members().iterator().next();
                System.out.println(group.groupState() + " " + group.members().size()
                        + " " + member.assignment().topicPartitions().size());
            }
            var shares = ListGroupsOptions.forShareGroups();
            for (var each : admin.listGroups(shares).all().get()) {
                if (each.groupId().equals(name)) {
                    System.out.println("listed " + each.type().equals(Optional.of(GroupType.SHARE)));
                }
            }
            var at = new TopicPartition(name, 0);
            show(admin, name, at);
            admin.alterShareGroupOffsets(name, Map.of(at, 2L)).all().get();
            show(admin, name, at);
            try (var consumer = consumer(name)) {
                System.out.println("again " + take(consumer, 3).size());
            }
            admin.deleteShareGroupOffsets(name, Set.of(name)).all().get();
            admin.alterShareGroupOffsets(name, Map.of(at, 4L)).all().get();
            show(admin, name, at);
            var config = new ConfigResource(ConfigResource.Type.GROUP, name);
            var known = admin.describeConfigs(List.of(config)).all().get().get(config);
            System.out.println("limit " + known.get("share.delivery.count.limit").value());
            System.out.println("start " + known.get("share.auto.offset.reset").value());
        }
    }

    private static void show(Admin admin, String name, TopicPartition at) throws Exception {
        var wanted = Map.of(name, new ListShareGroupOffsetsSpec());
        var found = admin.listShareGroupOffsets(wanted).all().get().get(name).get(at);
        System.out.println("start " + found.startOffset() + " lag " + found.lag().get());
    }
}
