// Transactions of the Java client: one verb per run, one line of output per finding.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

public final class Transact {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final int PARTITIONS = 4;
    private static String address;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        String id = arguments[2];
        switch (arguments[1]) {
            case "cycle" -> cycle(id);
            case "transform" -> transform(id);
            case "fence" -> fence(id);
            case "timeout" -> timeout(id);
            case "describe" -> describe(id);
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static Properties settings(String... pairs) {
        Properties found = ClientSettings.of(address, pairs);
        found.putIfAbsent("auto.offset.reset", "earliest");
        found.putIfAbsent("enable.auto.commit", "false");
        return found;
    }

    private static KafkaProducer<String, String> producer(String id, String... pairs) {
        Properties settings = settings(pairs);
        settings.put("transactional.id", id);
        var found = new KafkaProducer<String, String>(settings);
        found.initTransactions();
        return found;
    }

    /** Writes an event to every partition. */
    private static void write(KafkaProducer<String, String> producer, String topic, String value) {
        for (int partition = 0; partition < PARTITIONS; partition++) {
            producer.send(new ProducerRecord<>(topic, partition, "k", value));
        }
    }

    /** Begins a transaction, and writes an event to every partition. */
    private static void begin(KafkaProducer<String, String> producer, String topic, String value) {
        producer.beginTransaction();
        write(producer, topic, value);
        producer.flush();
    }

    /** Returns what is read of a topic up to where it ends now. */
    private static List<String> read(String topic, String isolation) {
        List<String> found = new ArrayList<>();
        try (var consumer = new KafkaConsumer<String, String>(settings("isolation.level", isolation))) {
            List<TopicPartition> places = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(it -> places.add(new TopicPartition(topic, it.partition())));
            consumer.assign(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (places.stream().anyMatch(it -> consumer.position(it) < ends.get(it))) {
                consumer.poll(Duration.ofMillis(100)).forEach(it -> found.add(it.value()));
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("not read to the end: " + found);
                }
            }
        }
        return found;
    }

    private static TransactionDescription described(Admin admin, String id) throws Exception {
        return admin.describeTransactions(Set.of(id)).description(id).get();
    }

    private static void cycle(String id) throws Exception {
        try (var producer = producer(id); var admin = Admin.create(settings())) {
            for (String end : List.of("commit", "abort", "commit", "abort", "commit")) {
                int before = described(admin, id).producerEpoch();
                begin(producer, id, end);
                if (end.equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                var now = described(admin, id);
                System.out.println(now.state() + " " + (now.producerEpoch() - before));
            }
        }
        System.out.println("committed " + read(id, "read_committed").size());
        System.out.println("values " + new TreeSet<>(read(id, "read_committed")));
        System.out.println("everything " + read(id, "read_uncommitted").size());
    }

    private static void transform(String id) throws Exception {
        String input = id + ".in";
        try (var producer = producer(id + ".first")) {
            producer.beginTransaction();
            for (int number = 0; number < 25; number++) {
                write(producer, input, "v" + number);
            }
            producer.commitTransaction();
        }
        var settings = settings("group.id", id, "isolation.level", "read_committed", "max.poll.records", "30");
        try (var consumer = new KafkaConsumer<String, String>(settings); var producer = producer(id)) {
            consumer.subscribe(List.of(input));
            int done = 0;
            int turns = 0;
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (done < 100 && System.nanoTime() < until) {
                var events = consumer.poll(Duration.ofMillis(200));
                if (events.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (var each : events) {
                    producer.send(new ProducerRecord<>(id, each.partition() + " " + each.value()));
                    offsets.put(new TopicPartition(each.topic(), each.partition()),
                            new OffsetAndMetadata(each.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (turns++ % 2 == 0) {
                    // An abort drops what has not been sent yet, and then there is nothing to hide.
                    producer.flush();
                    producer.abortTransaction();
                    for (var place : events.partitions()) {
                        consumer.seek(place, events.records(place).get(0).offset());
                    }
                } else {
                    producer.commitTransaction();
                    done += events.count();
                }
            }
            long committed = 0;
            for (var each : consumer.committed(consumer.assignment()).values()) {
                committed += each == null ? 0 : each.offset();
            }
            System.out.println("cursors " + committed);
        }
        List<String> found = read(id, "read_committed");
        System.out.println("out " + found.size() + " different " + new TreeSet<>(found).size());
        System.out.println("aborted " + (read(id, "read_uncommitted").size() > found.size()));
    }

    /** Commits what is over already, and says how the server refuses it. */
    private static void commitFenced(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            System.out.println("not fenced");
        } catch (KafkaException error) {
            System.out.println(error.getClass().getSimpleName());
        }
    }

    private static void fence(String id) throws Exception {
        try (var first = producer(id)) {
            begin(first, id, "first");
            try (var second = producer(id)) {
                second.beginTransaction();
                write(second, id, "second");
                second.commitTransaction();
            }
            commitFenced(first);
        }
        System.out.println(read(id, "read_committed"));
    }

    private static void timeout(String id) throws Exception {
        try (var producer = producer(id, "transaction.timeout.ms", "500"); var admin = Admin.create(settings())) {
            begin(producer, id, "late");
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (described(admin, id).state() != TransactionState.COMPLETE_ABORT && System.nanoTime() < until) {
                Thread.onSpinWait();
            }
            commitFenced(producer);
        }
        try (var next = producer(id)) {
            next.beginTransaction();
            write(next, id, "next");
            next.commitTransaction();
        }
        System.out.println(read(id, "read_committed"));
    }

    private static void describe(String id) throws Exception {
        try (var producer = producer(id, "transaction.timeout.ms", "60000"); var admin = Admin.create(settings())) {
            begin(producer, id, "v");
            var found = described(admin, id);
            System.out.println(found.state() + " " + found.transactionTimeoutMs() + " "
                    + found.topicPartitions().size() + " " + found.transactionStartTimeMs().isPresent());
            var options = new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING));
            for (var each : admin.listTransactions(options).all().get()) {
                System.out.println(each.transactionalId().equals(id) + " " + each.state());
            }
            long others = found.producerId() + 1;
            options = new ListTransactionsOptions().filterProducerIds(Set.of(others));
            System.out.println("others " + admin.listTransactions(options).all().get().stream()
                    .anyMatch(it -> it.transactionalId().equals(id)));
            options = new ListTransactionsOptions().filterOnDuration(600000);
            System.out.println("old " + admin.listTransactions(options).all().get().size());
            var place = new TopicPartition(id, 1);
            var active = admin.describeProducers(Set.of(place)).partitionResult(place).get().activeProducers();
            for (var each : active) {
                System.out.println((each.producerId() == found.producerId()) + " " + each.lastSequence() + " "
                        + each.currentTransactionStartOffset().getAsLong());
            }
            producer.commitTransaction();
            active = admin.describeProducers(Set.of(place)).partitionResult(place).get().activeProducers();
            System.out.println("open " + active.get(0).currentTransactionStartOffset().isPresent());
            System.out.println(described(admin, id).state());
            try {
                described(admin, id + ".none");
            } catch (java.util.concurrent.ExecutionException error) {
                System.out.println(error.getCause().getClass().getSimpleName());
            }
        }
    }
}
