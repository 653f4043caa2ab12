import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A member on Apache Kafka's own client. */
public final class Member implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private static volatile boolean leaving;

    private final String topic;
    private final String target;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();

    /** The arguments are those of the other members; see role.py. */
    public static void main(String[] arguments) throws InterruptedException {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            leaving = true;
            try {
                main.join(10_000);
            } catch (InterruptedException interrupted) {
                // The process ends, one way or the other.
            }
            Runtime.getRuntime().halt(0);
        }));
        try {
            new Member(arguments).run();
        } catch (RuntimeException error) {
            say("error", error.toString().replaceAll("\\s+", " "));
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private Member(String[] arguments) {
        topic = arguments[1];
        target = arguments[6];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", arguments[3]);
        settings.put("reconnect.backoff.max.ms", "500");
        Properties reading = new Properties();
        reading.putAll(settings);
        reading.put("group.id", arguments[2]);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "50");
        if (arguments[4].equals("consumer")) {
            reading.put("group.protocol", "consumer");
        } else {
            reading.put("partition.assignment.strategy", ASSIGNORS.get(arguments[4]));
            reading.put("session.timeout.ms", arguments[5]);
            reading.put("heartbeat.interval.ms", "300");
            reading.put("max.poll.interval.ms", "12000");
        }
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (target.isEmpty()) {
            producer = null;
        } else {
            settings.put("transactional.id", arguments[3]);
            settings.put("transaction.timeout.ms", "10000");
            producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            producer.initTransactions();
        }
    }

    private void run() {
        consumer.subscribe(List.of(topic), this);
        while (!leaving) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
            if (producer == null) {
                read(records);
            } else if (!records.isEmpty()) {
                copy(records, reached(records));
            }
        }
        consumer.close();
        if (producer != null) {
            producer.close();
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> reached(ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            offsets.put(
                    new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        return offsets;
    }

    private void read(ConsumerRecords<byte[], byte[]> records) {
        if (!records.isEmpty()) {
            StringBuilder read = new StringBuilder();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                read.append(' ').append(record.partition()).append(':').append(record.offset());
            }
            say("read", read.toString().strip());
            uncommitted.putAll(reached(records));
        }
        if (!uncommitted.isEmpty()) {
            commit();
        }
    }

    private void commit() {
        try {
            consumer.commitSync(uncommitted);
            sayCommitted(uncommitted);
            uncommitted.clear();
        } catch (KafkaException error) {
            // The next owner of a partition reads on from what was committed before. A partition that this member
            // keeps, as cooperative members do, is not read again: its offset is committed after the next poll.
            say("error", error.toString().replaceAll("\\s+", " "));
        }
    }

    private void copy(
            ConsumerRecords<byte[], byte[]> records, Map<TopicPartition, OffsetAndMetadata> offsets) {
        try {
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
            sayCommitted(offsets);
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException error) {
            say("error", error.toString().replaceAll("\\s+", " "));
            producer.abortTransaction();
            rewind();
        }
    }

    private void rewind() {
        consumer.committed(consumer.assignment())
                .forEach((partition, found) -> consumer.seek(partition, found == null ? 0 : found.offset()));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", numbers(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say("revoked", numbers(partitions));
        uncommitted.keySet().removeAll(partitions);
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(one -> String.valueOf(one.partition())).collect(Collectors.joining(" "));
    }

    private static void sayCommitted(Map<TopicPartition, OffsetAndMetadata> offsets) {
        say("committed", offsets.entrySet().stream()
                .map(one -> one.getKey().partition() + ":" + one.getValue().offset())
                .collect(Collectors.joining(" ")));
    }

    private static void say(String what, String values) {
        System.out.println((what + " " + values).strip());
        System.out.flush();
    }
}
