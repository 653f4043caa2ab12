// kafkajs: produce, a group, a transaction that commits and one that aborts, administration.
// Started by tests/clients/test_kafkajs.py, with a broker at BOOTSTRAP_SERVERS.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import kafkajs from "kafkajs";
import { eventually, onceKnown } from "./eventually.js";

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs;

const kafka = new Kafka({
  clientId: "kafkajs-test",
  brokers: [process.env.BOOTSTRAP_SERVERS],
  logLevel: logLevel.NOTHING,
});
const admin = kafka.admin();

before(async () => {
  await admin.connect();
});

after(async () => {
  await admin.disconnect();
});

// Apache Kafka's broker may not know a topic yet whose creation it has answered; kafkajs then fails instead of waiting.
async function create(topic, numPartitions) {
  try {
    assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions }] }), true);
  } catch (error) {
    if (error.type !== "UNKNOWN_TOPIC_OR_PARTITION") throw error;
  }
  await eventually(true, async () => (await admin.listTopics()).includes(topic));
}

// Resolves with the values of a topic, in the order of each partition, once there are `count` of them.
async function read(topic, count, groupId) {
  const consumer = kafka.consumer({ groupId, readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const values = [];
  try {
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer
        .run({
          eachMessage: async ({ message }) => {
            values.push(message.value.toString());
            if (values.length >= count) resolve();
          },
        })
        .catch(reject);
    });
    return values;
  } finally {
    await consumer.disconnect();
  }
}

test("administration: topics, configs, offsets", async () => {
  const topic = "kafkajs-admin";
  await create(topic, 3);
  const partitions = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;
  await eventually(3, partitions);
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const configEntries = [{ name: "retention.ms", value: "5000" }];
  await onceKnown(() => admin.alterConfigs({ resources: [{ ...resource, configEntries }] }));
  const described = await onceKnown(() =>
    admin.describeConfigs({ resources: [{ ...resource, configNames: ["retention.ms"] }] }),
  );
  assert.equal(described.resources[0].configEntries[0].configValue, "5000");
  await onceKnown(() => admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] }));
  await eventually(4, partitions);
  await admin.deleteTopics({ topics: [topic] });
  await eventually(false, async () => (await admin.listTopics()).includes(topic));
});

test("an idempotent producer and a group", async () => {
  const topic = "kafkajs-group";
  await create(topic, 1);
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const values = Array.from({ length: 20 }, (_, number) => `v${number}`);
  await producer.send({
    topic,
    acks: -1,
    compression: CompressionTypes.GZIP,
    messages: values.map((value) => ({ key: "k", value })),
  });
  await producer.disconnect();
  assert.deepEqual(await read(topic, 20, "kafkajs-g"), values);
  await eventually("Empty", async () => (await admin.describeGroups(["kafkajs-g"])).groups[0].state);
  const [committed] = await admin.fetchOffsets({ groupId: "kafkajs-g", topics: [topic] });
  assert.equal(committed.partitions[0].offset, "20");
});

test("only what was committed is read, and offsets go with the transaction", async () => {
  const topic = "kafkajs-transactions";
  await create(topic, 1);
  const producer = kafka.producer({ transactionalId: "kafkajs-t", idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const aborted = await producer.transaction();
  await aborted.send({ topic, messages: [{ value: "aborted" }] });
  await aborted.abort();
  const committed = await producer.transaction();
  await committed.send({ topic, messages: [{ value: "one" }, { value: "two" }] });
  await committed.sendOffsets({
    consumerGroupId: "kafkajs-offsets",
    topics: [{ topic, partitions: [{ partition: 0, offset: "7" }] }],
  });
  await committed.commit();
  await producer.disconnect();
  assert.deepEqual(await read(topic, 2, "kafkajs-t-readers"), ["one", "two"]);
  const groupId = "kafkajs-offsets";
  await eventually("7", async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions[0].offset);
});
