import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Apache Kafka's own assignors, driven line by line. Subscriptions and assignments come and go as the bytes that members
 * exchange, so that the formats are tried as well.
 *
 * <pre>
 * assign NAME topic=count,... member instance|- subscription-hex ...   ->  member assignment-hex ...
 * remember NAME generation assignment-hex topic,...                    ->  user-data-hex|-
 * </pre>
 */
public class KafkaAssignors {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            ConsumerPartitionAssignor assignor = switch (words[1]) {
                case "range" -> new RangeAssignor();
                case "roundrobin" -> new RoundRobinAssignor();
                case "sticky" -> new StickyAssignor();
                default -> new CooperativeStickyAssignor();
            };
            System.out.println("> " + (words[0].equals("assign") ? assign(assignor, words) : remember(assignor, words)));
            System.out.flush();
        }
    }

    static String assign(ConsumerPartitionAssignor assignor, String[] words) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (int index = 3; index < words.length; index += 3) {
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes(words[index + 2]));
            if (!words[index + 1].equals("-")) {
                subscription.setGroupInstanceId(Optional.of(words[index + 1]));
            }
            subscriptions.put(words[index], subscription);
        }
        GroupSubscription group = new GroupSubscription(subscriptions);
        Map<String, Assignment> assigned = assignor.assign(cluster(words[2]), group).groupAssignment();
        return new TreeMap<>(assigned).entrySet().stream()
            .map(entry -> entry.getKey() + " " + hex(ConsumerProtocol.serializeAssignment(entry.getValue())))
            .collect(Collectors.joining(" "));
    }

    static String remember(ConsumerPartitionAssignor assignor, String[] words) {
        Assignment assignment = ConsumerProtocol.deserializeAssignment(bytes(words[3]));
        assignor.onAssignment(assignment, new ConsumerGroupMetadata("g", Integer.parseInt(words[2]), "m", Optional.empty()));
        return hex(assignor.subscriptionUserData(Set.of(words[4].split(","))));
    }

    static Cluster cluster(String counts) {
        Node node = new Node(1, "localhost", 9092);
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : counts.split(",")) {
            String[] nameAndCount = topic.split("=");
            for (int partition = 0; partition < Integer.parseInt(nameAndCount[1]); partition++) {
                partitions.add(new PartitionInfo(nameAndCount[0], partition, node, new Node[] {node}, new Node[] {node}));
            }
        }
        return new Cluster("cluster", List.of(node), partitions, Set.of(), Set.of());
    }

    static ByteBuffer bytes(String hex) {
        return ByteBuffer.wrap(HEX.parseHex(hex));
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes.length == 0 ? "-" : HEX.formatHex(bytes);
    }
}
