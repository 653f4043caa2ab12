import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A copier on Apache Kafka's own client: fenced is the end, a timeout is asked again, all else is aborted. */
public final class Copier {
    private static final int RECORDS_PER_TRANSACTION = 50;

    private final String source;
    private final String target;
    private final List<TopicPartition> partitions = new ArrayList<>();
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private long[] positions;

    /** The arguments are those of the other copiers; see task.py. */
    public static void main(String[] arguments) {
        long[] ends = Arrays.stream(arguments[6].split(",")).mapToLong(Long::parseLong).toArray();
        new Copier(arguments, ends.length).copyUpTo(ends);
    }

    private Copier(String[] arguments, int count) {
        source = arguments[1];
        target = arguments[2];
        for (int partition = 0; partition < count; partition++) {
            partitions.add(new TopicPartition(source, partition));
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[3]);
        settings.put("transaction.timeout.ms", arguments[5]);
        settings.put("group.id", arguments[4]);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "none");
        settings.put("max.poll.records", String.valueOf(RECORDS_PER_TRANSACTION));
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private void copyUpTo(long[] ends) {
        untilTold(producer::initTransactions);
        consumer.assign(partitions);
        rewind();
        while (!Arrays.equals(positions, ends)) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty()) {
                continue;
            }
            try {
                positions = copy(records);
                System.out.println(Arrays.stream(positions).sum());
            } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException fatal) {
                throw fatal;
            } catch (KafkaException error) {
                untilTold(producer::abortTransaction);
                rewind();
            }
        }
        producer.close();
        consumer.close();
    }

    private long[] copy(ConsumerRecords<byte[], byte[]> records) {
        long[] reached = positions.clone();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
            reached[record.partition()] = record.offset() + 1;
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
            offsets.put(partition, new OffsetAndMetadata(reached[partition.partition()]));
        }
        untilTold(() -> producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata()));
        untilTold(producer::commitTransaction);
        return reached;
    }

    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(new HashSet<>(partitions));
        positions = new long[partitions.size()];
        for (TopicPartition partition : partitions) {
            OffsetAndMetadata found = committed.get(partition);
            positions[partition.partition()] = found == null ? 0 : found.offset();
            consumer.seek(partition, positions[partition.partition()]);
        }
    }

    private static void untilTold(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException timeout) {
                // Still pursued: asking again waits on.
            }
        }
    }
}
