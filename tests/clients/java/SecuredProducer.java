import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer with whatever security its settings say.
 *
 * <p>Arguments: a file of settings, then one of
 *
 * <ul>
 *   <li>{@code send TOPIC VALUE}: one record; prints {@code SENT 1}
 *   <li>{@code load TOPIC}: numbers from 0 on, twenty at a time, until its standard input ends; prints {@code SENT count}
 *   <li>{@code transaction KEPT LOST}: writes to both in a transaction and prints {@code WRITTEN}; after a line on its
 *       standard input it is refused at LOST, aborts, commits another to KEPT, and prints {@code COMMITTED}
 * </ul>
 */
public final class SecuredProducer {
    private static final BufferedReader INPUT =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            switch (arguments[1]) {
                case "send" -> {
                    producer.send(new ProducerRecord<>(arguments[2], 0, null, arguments[3])).get();
                    System.out.println("SENT 1");
                }
                case "load" -> load(producer, arguments[2]);
                default -> transaction(producer, arguments[2], arguments[3]);
            }
        }
    }

    private static void load(KafkaProducer<String, String> producer, String topic) throws Exception {
        int count = 0;
        while (!INPUT.ready()) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, String.valueOf(count++))));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
        System.out.println("SENT " + count);
    }

    private static void transaction(KafkaProducer<String, String> producer, String kept, String lost)
            throws ExecutionException, InterruptedException, IOException {
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(kept, "aborted")).get();
        producer.send(new ProducerRecord<>(lost, "aborted")).get();
        System.out.println("WRITTEN");
        INPUT.readLine();
        try {
            producer.send(new ProducerRecord<>(lost, "refused")).get();
            throw new IllegalStateException("a record was written without the right to write it");
        } catch (ExecutionException refused) {
            if (!(refused.getCause() instanceof TopicAuthorizationException)) {
                throw refused;
            }
        }
        producer.abortTransaction();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(kept, "committed")).get();
        producer.commitTransaction();
        System.out.println("COMMITTED");
    }
}
