// Members of consumer groups (group.protocol=consumer), one verb per run, one line per finding.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

public final class Members {
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    private static String address;
    private static String topic;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        topic = arguments[2];
        switch (arguments[1]) {
            case "share" -> share();
            case "hold" -> hold();
            case "take" -> take();
            case "stay" -> stay();
            case "keep" -> keep();
            case "mix" -> mix(arguments[3]);
            case "pattern" -> pattern();
            case "await" -> await();
            case "describe" -> describe();
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static final class Reader implements AutoCloseable {
        final KafkaConsumer<String, String> consumer;
        final List<String> values = new ArrayList<>();

        Reader(String instance) {
            this(instance, Map.of("group.protocol", "consumer"));
        }

        Reader(String instance, Map<String, String> more) {
            Properties settings = settings();
            settings.putAll(more);
            settings.put("group.id", topic);
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", "false");
            if (instance != null) {
                settings.put("group.instance.id", instance);
            }
            String strings = "org.apache.kafka.common.serialization.StringDeserializer";
            settings.put("key.deserializer", strings);
            settings.put("value.deserializer", strings);
            consumer = new KafkaConsumer<>(settings);
        }

        Reader topics(String... names) {
            consumer.subscribe(List.of(names));
            return this;
        }

        Collection<String> owned() {
            Collection<String> found = new TreeSet<>();
            for (TopicPartition each : consumer.assignment()) {
                found.add(each.topic() + "/" + each.partition());
            }
            return found;
        }

        public void close() {
            consumer.close();
        }
    }

    private static Properties settings() {
        Properties found = new Properties();
        found.put("bootstrap.servers", address);
        return found;
    }

    private static void until(BooleanSupplier holds, Reader... readers) {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!holds.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("it takes too long");
            }
            for (Reader each : readers) {
                each.consumer.poll(Duration.ofMillis(50)).forEach(event -> each.values.add(event.value()));
            }
        }
    }

    private static void produce(int first, int end) throws Exception {
        Properties settings = settings();
        String strings = "org.apache.kafka.common.serialization.StringSerializer";
        settings.put("key.serializer", strings);
        settings.put("value.serializer", strings);
        try (var producer = new KafkaProducer<String, String>(settings)) {
            for (int number = first; number < end; number++) {
                producer.send(new ProducerRecord<>(topic, "k" + number, "v" + number)).get();
            }
        }
    }

    private static void say(Object text) {
        System.out.println(text);
        System.out.flush();
    }

    private static void share() throws Exception {
        produce(0, 20);
        try (var first = new Reader(null).topics(topic)) {
            until(() -> first.values.size() == 20, first);
            first.consumer.commitSync();
            try (var second = new Reader(null).topics(topic)) {
                until(() -> first.owned().size() == 2 && second.owned().size() == 2, first, second);
                say("shared");
                produce(20, 40);
                until(() -> first.values.size() + second.values.size() == 40, first, second);
                second.consumer.commitSync();
                say("read " + (first.values.size() + second.values.size()));
            }
            until(() -> first.owned().size() == 4, first);
            say("alone with " + first.owned().size());
        }
    }

    private static void hold() throws Exception {
        var reader = new Reader(null).topics(topic);
        until(() -> reader.owned().size() == 4, reader);
        say("held");
        Thread.sleep(PATIENCE.toMillis());
    }

    private static void take() {
        try (var reader = new Reader(null).topics(topic)) {
            until(() -> reader.owned().size() == 4, reader);
            say("taken");
        }
    }

    private static void stay() throws Exception {
        produce(0, 10);
        try (var reader = new Reader(null).topics(topic)) {
            until(() -> reader.values.size() == 10, reader);
            var member = reader.consumer.groupMetadata().memberId();
            int epoch = reader.consumer.groupMetadata().generationId();
            say("ready");
            System.in.read();
            produce(10, 20);
            until(() -> reader.values.size() == 20, reader);
            reader.consumer.commitSync();
            var now = reader.consumer.groupMetadata();
            say("the same " + (now.memberId().equals(member) && now.generationId() == epoch));
        }
    }

    private static void keep() {
        try (var other = new Reader("one").topics(topic)) {
            var back = new Reader("two").topics(topic);
            until(() -> other.owned().size() == 2 && back.owned().size() == 2, other, back);
            var had = back.owned();
            back.close();
            try (var again = new Reader("two").topics(topic)) {
                until(() -> again.owned().size() == 2, other, again);
                say("kept " + again.owned().equals(had) + " " + other.owned().size());
            }
        }
    }

    private static void mix(String assignor) throws Exception {
        Map<String, String> classic = Map.of("heartbeat.interval.ms", "200", "session.timeout.ms", "30000",
                "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        var old = new Reader(null, classic).topics(topic);
        try (var next = new Reader(null, classic).topics(topic)) {
            shared(old, next);
            try (var fresh = new Reader(null).topics(topic)) {
                old.close();
                shared(next, fresh);
                next.close();
                until(() -> fresh.owned().size() == 4, fresh);
                try (var late = new Reader(null, classic).topics(topic)) {
                    shared(fresh, late);
                    fresh.close();
                    until(() -> late.owned().size() == 4, late);
                    produce(0, 8);
                    until(() -> late.values.size() == 8, late);
                    late.consumer.commitSync();
                    say("mixed");
                }
            }
        }
    }

    private static void shared(Reader one, Reader other) {
        until(() -> one.owned().size() == 2 && other.owned().size() == 2, one, other);
    }

    private static void pattern() throws Exception {
        try (var admin = Admin.create(settings()); var reader = new Reader(null)) {
            reader.consumer.subscribe(new SubscriptionPattern(topic + "(\\.[a-z]+)?"));
            until(() -> reader.owned().size() == 4, reader);
            var later = new NewTopic(topic + ".later", Optional.of(2), Optional.empty());
            admin.createTopics(Set.of(later)).all().get();
            until(() -> reader.owned().size() == 6, reader);
            say("found " + reader.owned().size());
        }
        try (var reader = new Reader(null)) {
            reader.consumer.subscribe(new SubscriptionPattern("(?=a)b"));
            until(() -> false, reader);
        } catch (org.apache.kafka.common.errors.InvalidRegularExpression error) {
            say("refused");
        }
    }

    private static void await() throws Exception {
        var often = Map.of("group.protocol", "consumer", "metadata.max.age.ms", "200");
        try (var admin = Admin.create(settings()); var reader = new Reader(null, often)) {
            reader.consumer.subscribe(Pattern.compile(Pattern.quote(topic)));
            until(() -> reader.consumer.groupMetadata().generationId() > 0, reader);
            say("found " + reader.owned().size());
            admin.createTopics(Set.of(new NewTopic(topic, Optional.of(2), Optional.empty()))).all().get();
            until(() -> reader.owned().size() == 2, reader);
            say("found " + reader.owned().size());
        }
    }

    private static void describe() throws Exception {
        try (var admin = Admin.create(settings()); var reader = new Reader(null).topics(topic)) {
            until(() -> reader.owned().size() == 4, reader);
            var group = admin.describeConsumerGroups(Set.of(topic)).all().get().get(topic);
            var member = group.members().iterator().next();
            say(group.type() + " " + group.groupState() + " " + group.partitionAssignor() + " "
                    + member.assignment().topicPartitions().size() + " "
                    + member.targetAssignment().get().topicPartitions().size());
            say("listed " + admin.listGroups().all().get().stream()
                    .filter(it -> it.groupId().equals(topic)).findFirst().get().type().get());
            var resource = new ConfigResource(ConfigResource.Type.GROUP, topic);
            var change = new ConfigEntry("consumer.session.timeout.ms", "5000");
            var alter = new AlterConfigOp(change, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, Set.of(alter))).all().get();
            var configs = admin.describeConfigs(Set.of(resource)).all().get().get(resource);
            say("session " + configs.get("consumer.session.timeout.ms").value());
        }
    }
}
