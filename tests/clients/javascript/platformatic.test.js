// @platformatic/kafka: produce, groups of both protocols, a transaction that commits and one that aborts, administration.
// Started by tests/clients/test_platformatic_kafka.py, with a broker at BOOTSTRAP_SERVERS.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  Admin,
  ConfigResourceTypes,
  Consumer,
  FetchIsolationLevels,
  GroupProtocols,
  MessagesStreamModes,
  Producer,
  stringDeserializers,
  stringSerializers,
} from "@platformatic/kafka";
import { eventually } from "./eventually.js";

const base = { clientId: "platformatic-test", bootstrapBrokers: [process.env.BOOTSTRAP_SERVERS] };
const admin = new Admin(base);

after(async () => {
  await admin.close();
});

// Resolves with the first `count` messages of a topic that a member of the group gets; `use` is called before it leaves.
async function read(topic, count, groupId, groupProtocol, use = async () => {}) {
  const consumer = new Consumer({ ...base, groupId, groupProtocol, deserializers: stringDeserializers });
  const stream = await consumer.consume({
    topics: [topic],
    mode: MessagesStreamModes.EARLIEST,
    isolationLevel: FetchIsolationLevels.READ_COMMITTED,
    autocommit: false,
  });
  const messages = [];
  for await (const message of stream) {
    messages.push(message);
    if (messages.length >= count) break;
  }
  await use(consumer, messages);
  await consumer.close(true);
  return messages.map((message) => message.value);
}

test("administration: topics, configs, groups", async () => {
  const topic = "platformatic-admin";
  const configs = [{ name: "retention.ms", value: "5000" }];
  const [created] = await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1, configs });
  assert.equal(created.name, topic);
  const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configurationKeys: ["retention.ms"] };
  await eventually(true, async () => (await admin.listTopics()).includes(topic));
  const [described] = await admin.describeConfigs({ resources: [resource] });
  assert.equal(described.configs[0].value, "5000");
  await admin.deleteTopics({ topics: [topic] });
  await eventually(false, async () => (await admin.listTopics()).includes(topic));
});

for (const protocol of [GroupProtocols.CLASSIC, GroupProtocols.CONSUMER]) {
  test(`an idempotent producer and a group of the ${protocol} protocol`, async () => {
    const topic = `platformatic-${protocol}`;
    await admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 });
    const producer = new Producer({ ...base, idempotent: true, serializers: stringSerializers });
    const values = Array.from({ length: 20 }, (_, number) => `v${number}`);
    await producer.send({ messages: values.map((value) => ({ topic, key: "k", value })), compression: "gzip" });
    await producer.close();
    assert.deepEqual(await read(topic, 20, `platformatic-g-${protocol}`, protocol), values);
  });
}

test("only what was committed is read, and offsets go with the transaction", async () => {
  const [input, topic] = ["platformatic-input", "platformatic-transactions"];
  await admin.createTopics({ topics: [input, topic], partitions: 1, replicas: 1 });
  const feeder = new Producer({ ...base, serializers: stringSerializers });
  await feeder.send({ messages: [{ topic: input, value: "a" }, { topic: input, value: "b" }] });
  await feeder.close();

  const transactionalId = "platformatic-t";
  const producer = new Producer({ ...base, idempotent: true, transactionalId, serializers: stringSerializers });
  const aborted = await producer.beginTransaction();
  await aborted.send({ messages: [{ topic, value: "aborted" }] });
  await aborted.abort();
  const groupId = "platformatic-copier";
  const topics = [{ topic: input, partitions: [0] }];
  await read(input, 2, groupId, GroupProtocols.CLASSIC, async (consumer, messages) => {
    const transaction = await producer.beginTransaction();
    await transaction.send({ messages: messages.map(({ value }) => ({ topic, value: value.toUpperCase() })) });
    await transaction.addConsumer(consumer);
    await transaction.addOffset(messages.at(-1));
    await transaction.commit();
    await eventually(["2"], async () => (await consumer.listCommittedOffsets({ topics })).get(input).map(String));
  });
  await producer.close();
  assert.deepEqual(await read(topic, 2, "platformatic-readers", GroupProtocols.CLASSIC), ["A", "B"]);
});
