import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words exactly once, with a repartition topic, a RocksDB store and its changelog.
 *
 * <p>Arguments: servers, a folder for the stores, the group protocol ("" for the default).
 */
public final class WordCounts {
    public static void main(String[] arguments) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("words")
                .groupBy((key, word) -> word)
                .count(Materialized.as("totals"))
                .toStream()
                .mapValues(String::valueOf)
                .to("counts", Produced.with(Serdes.String(), Serdes.String()));

        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-counts");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        // Every single count is written, so that a test can see each of them once.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put("consumer.session.timeout.ms", 6000);
        settings.put("consumer.auto.offset.reset", "earliest");
        if (!arguments[2].isEmpty()) {
            settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[2]);
        }

        CountDownLatch failed = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("FAILED " + error);
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                System.out.println("CAUSE " + cause);
            }
            failed.countDown();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> System.out.println("STATE " + now));
        streams.start();
        failed.await();
        streams.close(Duration.ofSeconds(10));
        System.exit(3);
    }
}
