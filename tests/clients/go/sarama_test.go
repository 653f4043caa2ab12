// sarama: produce, a group, a transaction that commits and one that aborts, administration.
// Started by tests/clients/test_sarama.py, with a broker at BOOTSTRAP_SERVERS.
package clienttests

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

var servers = []string{os.Getenv("BOOTSTRAP_SERVERS")}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Waits for what a broker tells a little later than it answers.
func eventually(t *testing.T, what string, observe func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !observe(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after two minutes: %s", what)
		}
	}
}

func saramaAdmin(t *testing.T) sarama.ClusterAdmin {
	t.Helper()
	admin, err := sarama.NewClusterAdmin(servers, saramaConfig())
	check(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	return admin
}

func saramaTopic(t *testing.T, name string) {
	t.Helper()
	check(t, saramaAdmin(t).CreateTopic(name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
}

// Collects values until there are enough of them; implements sarama.ConsumerGroupHandler.
type collector struct {
	wanted int
	values []string
	done   context.CancelFunc
}

func (*collector) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*collector) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *collector) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			c.values = append(c.values, string(message.Value))
			session.MarkMessage(message, "")
			if len(c.values) >= c.wanted {
				session.Commit()
				c.done()
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func saramaRead(t *testing.T, topic, groupID string, wanted int) []string {
	t.Helper()
	group, err := sarama.NewConsumerGroup(servers, groupID, saramaConfig())
	check(t, err)
	defer func() { _ = group.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	found := &collector{wanted: wanted, done: cancel}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{topic}, found); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
	}
	return found.values
}

func TestSaramaAdministration(t *testing.T) {
	admin := saramaAdmin(t)
	topic, retention := "sarama-admin", "5000"
	detail := &sarama.TopicDetail{
		NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention},
	}
	check(t, admin.CreateTopic(topic, detail, false))
	described, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	check(t, err)
	position := slices.IndexFunc(described, func(entry sarama.ConfigEntry) bool { return entry.Name == "retention.ms" })
	if position < 0 || described[position].Value != retention {
		t.Fatalf("retention.ms is not %s in %v", retention, described)
	}
	check(t, admin.CreatePartitions(topic, 4, nil, false))
	check(t, admin.DeleteTopic(topic))
	eventually(t, "the topic is gone", func() bool {
		topics, err := admin.ListTopics()
		check(t, err)
		_, there := topics[topic]
		return !there
	})
}

func TestSaramaGroup(t *testing.T) {
	topic := "sarama-group"
	saramaTopic(t, topic)
	config := saramaConfig()
	config.Producer.Compression = sarama.CompressionZSTD
	producer, err := sarama.NewSyncProducer(servers, config)
	check(t, err)
	wanted := []string{}
	for number := range 20 {
		value := fmt.Sprintf("v%d", number)
		wanted = append(wanted, value)
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
		check(t, err)
		if offset != int64(number) {
			t.Fatalf("offset %d, not %d", offset, number)
		}
	}
	check(t, producer.Close())
	if values := saramaRead(t, topic, "sarama-g", 20); !slices.Equal(values, wanted) {
		t.Fatalf("%v, not %v", values, wanted)
	}
	offsets, err := saramaAdmin(t).ListConsumerGroupOffsets("sarama-g", map[string][]int32{topic: {0}})
	check(t, err)
	if offset := offsets.GetBlock(topic, 0).Offset; offset != 20 {
		t.Fatalf("the group has committed %d, not 20", offset)
	}
}

func TestSaramaTransactions(t *testing.T) {
	topic := "sarama-transactions"
	saramaTopic(t, topic)
	config := saramaConfig()
	config.Producer.Transaction.ID = "sarama-t"
	producer, err := sarama.NewSyncProducer(servers, config)
	check(t, err)
	send := func(value string) {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
		check(t, err)
	}
	check(t, producer.BeginTxn())
	send("aborted")
	check(t, producer.AbortTxn())
	check(t, producer.BeginTxn())
	send("one")
	send("two")
	offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 7, LeaderEpoch: -1}}}
	check(t, producer.AddOffsetsToTxn(offsets, "sarama-offsets"))
	check(t, producer.CommitTxn())
	check(t, producer.Close())
	if values := saramaRead(t, topic, "sarama-t-readers", 2); !slices.Equal(values, []string{"one", "two"}) {
		t.Fatalf("%v", values)
	}
	admin := saramaAdmin(t)
	eventually(t, "the offset in the transaction is 7", func() bool {
		committed, err := admin.ListConsumerGroupOffsets("sarama-offsets", map[string][]int32{topic: {0}})
		check(t, err)
		return committed.GetBlock(topic, 0).Offset == 7
	})
}
