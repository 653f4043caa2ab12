// kafka-go: produce, a group, a transaction of offsets, administration.
// Started by tests/clients/test_kafka_go.py, with a broker at BOOTSTRAP_SERVERS.
//
// kafka-go writes no records in transactions: its client has the requests of a transaction, and its writer does not use
// them. So the transactions here are of offsets.
package clienttests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func kafkaGoClient() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(servers...), Timeout: 2 * time.Minute}
}

func kafkaGoTopic(t *testing.T, name string, configs ...kafka.ConfigEntry) {
	t.Helper()
	topic := kafka.TopicConfig{Topic: name, NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: configs}
	created, err := kafkaGoClient().CreateTopics(within(t), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	check(t, err)
	check(t, created.Errors[name])
}

func TestKafkaGoAdministration(t *testing.T) {
	topic, client := "kafka-go-admin", kafkaGoClient()
	kafkaGoTopic(t, topic, kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "5000"})
	asked := kafka.DescribeConfigRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
	}
	described, err := client.DescribeConfigs(within(t), &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{asked},
	})
	check(t, err)
	if value := described.Resources[0].ConfigEntries[0].ConfigValue; value != "5000" {
		t.Fatalf("retention.ms is %s", value)
	}
	deleted, err := client.DeleteTopics(within(t), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	check(t, err)
	check(t, deleted.Errors[topic])
}

func TestKafkaGoGroup(t *testing.T) {
	topic := "kafka-go-group"
	kafkaGoTopic(t, topic)
	writer := &kafka.Writer{
		Addr: kafka.TCP(servers...), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: kafka.Lz4,
		BatchTimeout: time.Millisecond,
	}
	wanted, messages := []string{}, []kafka.Message{}
	for number := range 20 {
		value := fmt.Sprintf("v%d", number)
		wanted = append(wanted, value)
		messages = append(messages, kafka.Message{Value: []byte(value)})
	}
	check(t, writer.WriteMessages(within(t), messages...))
	check(t, writer.Close())

	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: servers, GroupID: "kafka-go-g", Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: time.Second,
	})
	values := []string{}
	for range wanted {
		message, err := reader.ReadMessage(within(t))
		check(t, err)
		values = append(values, string(message.Value))
	}
	check(t, reader.Close())
	if !slices.Equal(values, wanted) {
		t.Fatalf("%v, not %v", values, wanted)
	}
	if offset := kafkaGoOffset(t, topic, "kafka-go-g"); offset != 20 {
		t.Fatalf("the group has committed %d, not 20", offset)
	}
}

func kafkaGoOffset(t *testing.T, topic, groupID string) int64 {
	t.Helper()
	var offset int64
	onceServed(t, func() error {
		fetched, err := kafkaGoClient().OffsetFetch(within(t), &kafka.OffsetFetchRequest{
			GroupID: groupID, Topics: map[string][]int{topic: {0}},
		})
		check(t, err)
		offset = fetched.Topics[topic][0].CommittedOffset
		return fetched.Error
	})
	return offset
}

// A coordinator that was chosen a moment ago does not serve yet, and one that is writing the markers of a transaction begins
// no other. The library leaves it to its user to ask again.
func onceServed(t *testing.T, ask func() error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		refused := ask()
		isEarly := errors.Is(refused, kafka.NotCoordinatorForGroup) || errors.Is(refused, kafka.GroupLoadInProgress) ||
			errors.Is(refused, kafka.GroupCoordinatorNotAvailable) || errors.Is(refused, kafka.ConcurrentTransactions)
		if !isEarly || time.Now().After(deadline) {
			check(t, refused)
			return
		}
	}
}

func kafkaGoProducer(t *testing.T, transactionalID string) (producer *kafka.ProducerSession) {
	t.Helper()
	onceServed(t, func() error {
		initialized, err := kafkaGoClient().InitProducerID(within(t), &kafka.InitProducerIDRequest{
			TransactionalID: transactionalID, TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1,
		})
		check(t, err)
		producer = initialized.Producer
		return initialized.Error
	})
	return producer
}

func TestKafkaGoTransactionsOfOffsets(t *testing.T) {
	topic, groupID, transactionalID, client := "kafka-go-transactions", "kafka-go-offsets", "kafka-go-t", kafkaGoClient()
	kafkaGoTopic(t, topic)
	for _, ending := range []struct {
		offset  int64
		commits bool
	}{{3, false}, {7, true}, {9, false}} {
		producer := kafkaGoProducer(t, transactionalID)
		added, err := client.AddOffsetsToTxn(within(t), &kafka.AddOffsetsToTxnRequest{
			TransactionalID: transactionalID, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
			GroupID: groupID,
		})
		check(t, err)
		check(t, added.Error)
		onceServed(t, func() error {
			pending, err := client.TxnOffsetCommit(within(t), &kafka.TxnOffsetCommitRequest{
				TransactionalID: transactionalID, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
				GroupID: groupID, GenerationID: -1,
				Topics: map[string][]kafka.TxnOffsetCommit{topic: {{Partition: 0, Offset: ending.offset}}},
			})
			check(t, err)
			return pending.Topics[topic][0].Error
		})
		ended, err := client.EndTxn(within(t), &kafka.EndTxnRequest{
			TransactionalID: transactionalID, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
			Committed: ending.commits,
		})
		check(t, err)
		check(t, ended.Error)
	}
	eventually(t, "the committed offset is 7", func() bool { return kafkaGoOffset(t, topic, groupID) == 7 })
}
