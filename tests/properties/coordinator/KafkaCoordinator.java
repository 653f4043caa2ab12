import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import kafka.coordinator.transaction.CoordinatorEpochAndTxnMetadata;
import kafka.coordinator.transaction.InitProducerIdResult;
import kafka.coordinator.transaction.TransactionConfig;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.coordinator.transaction.TransactionMarkerChannelManager;
import kafka.coordinator.transaction.TransactionStateManager;
import kafka.coordinator.transaction.TransactionalIdAndProducerIdEpoch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnResult;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import scala.Function1;
import scala.Function3;
import scala.Option;
import scala.Some;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction3;
import scala.runtime.BoxedUnit;
import scala.util.Either;
import scala.util.Right;

/**
 * Apache Kafka's own transaction coordinator, with one transactional id, driven line by line: a command comes in, the
 * answer and the state go out. Log, markers, clock and producer ids are stand-ins; every append succeeds at once.
 */
public class KafkaCoordinator {
    static final String ID = "id";
    static TransactionMetadata metadata;
    static TxnTransitMetadata completion;
    static TransactionVersion clusterVersion;
    static long nextProducerId;
    static long nowMs;
    static int coordinatorEpoch;
    static String answer;

    public static void main(String[] arguments) throws Exception {
        TransactionConfig config = new TransactionConfig(
            7 * 24 * 3600 * 1000, 900_000, 50, (short) 1, 1, 1, 1, 10_000, 3_600_000, false, 30_000);
        ProducerIdManager producerIds = () -> nextProducerId++;
        TransactionCoordinator coordinator = new TransactionCoordinator(
            config, null, function0(() -> producerIds), new Log(config), markers(), CLOCK, new LogContext());
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            answer = "";
            try {
                run(coordinator, line.split(" "));
            } catch (RuntimeException unexpected) {
                answer = unexpected.getClass().getSimpleName();
            }
            System.out.println("> " + answer + " | " + state());
        }
    }

    static void run(TransactionCoordinator coordinator, String[] words) {
        switch (words[0]) {
            case "reset" -> {
                metadata = null;
                completion = null;
                nextProducerId = 1000;
                nowMs = Long.parseLong(words[2]);
                clusterVersion = version(words[1]);
            }
            case "init" -> coordinator.handleInitProducerId(
                ID, Integer.parseInt(words[1]), false, false, identity(words[2], words[3]),
                function1((InitProducerIdResult result) ->
                    answer = result.error().code() + " " + result.producerId() + " " + result.producerEpoch()),
                RequestLocal.noCaching());
            case "add" -> coordinator.handleAddPartitionsToTransaction(
                ID, Long.parseLong(words[1]), Short.parseShort(words[2]), partitions(words[3]),
                function1((Errors error) -> answer = "" + error.code()), version(words[4]), RequestLocal.noCaching());
            case "verify" -> coordinator.handleVerifyPartitionsInTransaction(
                ID, Long.parseLong(words[1]), Short.parseShort(words[2]), partitions(words[3]),
                function1(KafkaCoordinator::verified));
            case "end" -> coordinator.handleEndTransaction(
                ID, Long.parseLong(words[1]), Short.parseShort(words[2]),
                words[3].equals("commit") ? TransactionResult.COMMIT : TransactionResult.ABORT, version(words[4]),
                function3((error, producerId, epoch) -> answer = error.code() + " " + producerId + " " + epoch),
                RequestLocal.noCaching());
            case "markers" -> complete();
            case "time" -> {
                nowMs += Long.parseLong(words[1]);
                coordinator.abortTimedOutTransactions(function1((TransactionalIdAndProducerIdEpoch timedOut) -> { },
                    function3((error, producerId, epoch) -> { })));
            }
            case "epoch" -> {
                metadata.setProducerEpoch(Short.parseShort(words[1]));
                metadata.setLastProducerEpoch((short) -1);
            }
            case "restart" -> restart(HexFormat.of().parseHex(words[1]));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    /** Every marker is written. The time of it is now, where Kafka takes that of the decision. */
    static void complete() {
        if (completion != null) {
            TxnTransitMetadata done = completion;
            completion = null;
            metadata.completeTransitionTo(new TxnTransitMetadata(
                done.producerId(), done.prevProducerId(), done.nextProducerId(), done.producerEpoch(),
                done.lastProducerEpoch(), done.txnTimeoutMs(), done.txnState(), done.topicPartitions(),
                done.txnStartTimestamp(), nowMs, done.clientTransactionVersion()));
        }
    }

    /** Another coordinator reads the record that the other side has written. The answer is what Kafka would write. */
    static void restart(byte[] theirs) {
        byte[] value = TransactionLog.valueToBytes(new TxnTransitMetadata(
            metadata.producerId(), metadata.prevProducerId(), next(), metadata.producerEpoch(),
            metadata.lastProducerEpoch(), metadata.txnTimeoutMs(), metadata.state(),
            new HashSet<>(metadata.topicPartitions()), metadata.txnStartTimestamp(),
            metadata.txnLastUpdateTimestamp(), metadata.clientTransactionVersion()), clusterVersion);
        answer = HexFormat.of().formatHex(value);
        TransactionLog.ReadResult read =
            TransactionLog.read(ByteBuffer.wrap(TransactionLog.keyToBytes(ID)), ByteBuffer.wrap(theirs));
        metadata = ((TransactionLog.TxnRecord) read).metadata();
        boolean decided = metadata.state() == TransactionState.PREPARE_COMMIT
            || metadata.state() == TransactionState.PREPARE_ABORT;
        completion = decided ? metadata.prepareComplete(nowMs) : null;
        coordinatorEpoch++;
    }

    static String state() {
        if (metadata == null)
            return "none";
        Set<Integer> partitions = new TreeSet<>();
        metadata.topicPartitions().forEach(partition -> partitions.add(partition.partition()));
        return metadata.state().id() + " " + metadata.producerId() + " " + metadata.producerEpoch() + " "
            + metadata.prevProducerId() + " " + next() + " " + metadata.txnTimeoutMs() + " "
            + metadata.txnStartTimestamp() + " " + metadata.txnLastUpdateTimestamp() + " "
            + metadata.clientTransactionVersion().featureLevel() + " " + partitions.toString().replace(" ", "");
    }

    static long next() {
        try {
            var field = TransactionMetadata.class.getDeclaredField("nextProducerId");
            field.setAccessible(true);
            return field.getLong(metadata);
        } catch (ReflectiveOperationException impossible) {
            throw new AssertionError(impossible);
        }
    }

    static void verified(AddPartitionsToTxnResult result) {
        TreeMap<Integer, Short> errors = new TreeMap<>();
        result.topicResults().forEach(topic -> topic.resultsByPartition().forEach(partition ->
            errors.put(partition.partitionIndex(), partition.partitionErrorCode())));
        answer = errors.toString().replace(" ", "");
    }

    static Option<ProducerIdAndEpoch> identity(String producerId, String epoch) {
        long id = Long.parseLong(producerId);
        return id < 0 ? Option.empty() : new Some<>(new ProducerIdAndEpoch(id, Short.parseShort(epoch)));
    }

    static Set<TopicPartition> partitions(String numbers) {
        Set<TopicPartition> partitions = new HashSet<>();
        for (String number : numbers.split(","))
            partitions.add(new TopicPartition("t", Integer.parseInt(number)));
        return partitions;
    }

    static TransactionVersion version(String level) {
        return TransactionVersion.fromFeatureLevel(Short.parseShort(level));
    }

    /** Where Kafka would append, the state changes at once. */
    static class Log extends TransactionStateManager {
        Log(TransactionConfig config) {
            super(0, null, null, null, config, CLOCK, new Metrics());
        }

        @Override public TransactionVersion transactionVersionLevel() {
            return clusterVersion;
        }

        @Override public boolean isTransaction2pcEnabled() {
            return false;
        }

        @Override public int partitionFor(String transactionalId) {
            return 0;
        }

        @Override public Either<Errors, Option<CoordinatorEpochAndTxnMetadata>> getTransactionState(String id) {
            return new Right<>(metadata == null ? Option.empty()
                : new Some<>(new CoordinatorEpochAndTxnMetadata(coordinatorEpoch, metadata)));
        }

        @Override public Either<Errors, CoordinatorEpochAndTxnMetadata> putTransactionStateIfNotExists(
            TransactionMetadata created) {
            metadata = metadata == null ? created : metadata;
            return new Right<>(new CoordinatorEpochAndTxnMetadata(coordinatorEpoch, metadata));
        }

        @Override public scala.collection.Iterable<TransactionalIdAndProducerIdEpoch> timedOutTransactions() {
            List<TransactionalIdAndProducerIdEpoch> timedOut = new ArrayList<>();
            if (metadata != null && metadata.state() == TransactionState.ONGOING
                && metadata.txnStartTimestamp() + metadata.txnTimeoutMs() < nowMs)
                timedOut.add(new TransactionalIdAndProducerIdEpoch(
                    ID, metadata.producerId(), metadata.producerEpoch()));
            return CollectionConverters.asScala(timedOut).toList();
        }

        @Override public void appendTransactionToLog(
            String id, int epoch, TxnTransitMetadata transition, Function1<Errors, BoxedUnit> appended,
            Function1<Errors, Object> retry, RequestLocal local) {
            metadata.completeTransitionTo(transition);
            appended.apply(Errors.NONE);
        }
    }

    /** Made without its constructor, which wants a network. */
    static TransactionMarkerChannelManager markers() throws ReflectiveOperationException {
        var unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        return (Markers) ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(Markers.class);
    }

    static class Markers extends TransactionMarkerChannelManager {
        Markers() {
            super(null, null, null, null, null);
        }

        @Override public void addTxnMarkersToSend(
            int epoch, TransactionResult result, TransactionMetadata prepared, TxnTransitMetadata following) {
            completion = following;
        }
    }

    static final Time CLOCK = (Time) java.lang.reflect.Proxy.newProxyInstance(
        Time.class.getClassLoader(), new Class<?>[] {Time.class},
        (proxy, method, parameters) -> method.getName().equals("milliseconds") ? nowMs : null);

    interface Three {
        void accept(Errors error, Object producerId, Object epoch);
    }

    static <T> AbstractFunction0<T> function0(java.util.function.Supplier<T> body) {
        return new AbstractFunction0<>() {
            @Override public T apply() {
                return body.get();
            }
        };
    }

    static <T> Function1<T, BoxedUnit> function1(java.util.function.Consumer<T> body) {
        return function1(body, BoxedUnit.UNIT);
    }

    static <T, R> Function1<T, R> function1(java.util.function.Consumer<T> body, R result) {
        return new AbstractFunction1<>() {
            @Override public R apply(T value) {
                body.accept(value);
                return result;
            }
        };
    }

    static Function3<Errors, Object, Object, BoxedUnit> function3(Three body) {
        return new AbstractFunction3<>() {
            @Override public BoxedUnit apply(Errors error, Object producerId, Object epoch) {
                body.accept(error, producerId, epoch);
                return BoxedUnit.UNIT;
            }
        };
    }
}
