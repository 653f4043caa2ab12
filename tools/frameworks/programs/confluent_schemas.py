# mypy: ignore-errors
"""Confluent's Avro, JSON Schema and Protobuf serializers with Semel's client and a schema registry in memory.

Confluent's serializers take a value and a context, and Semel's only a value: ``partial`` adapts them.
"""

import os
from functools import partial

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from semel import blocking

SERVERS = os.environ["BOOTSTRAP_SERVERS"]
RECORD = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
SCHEMA = '{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'

# The same as protoc would generate from: message Order { int64 id = 1; }
PROTO = descriptor_pb2.FileDescriptorProto(name="order.proto", package="semel.test", syntax="proto3")
FIELD = descriptor_pb2.FieldDescriptorProto
PROTO.message_type.add(name="Order").field.add(name="id", number=1, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
descriptor_pool.Default().Add(PROTO)
Order = message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("semel.test.Order"))

registry = SchemaRegistryClient.new_client({"url": "mock://"})


def through_a_topic(topic, serializer, deserializer, value):
    context = SerializationContext(topic, MessageField.VALUE)
    with blocking.Admin(bootstrap_servers=SERVERS) as admin:
        admin.topics.create(topic, partitions=1)
    with blocking.Producer(bootstrap_servers=SERVERS, value_serializer=partial(serializer, ctx=context)) as producer:
        producer.send(topic, value).result()
    with blocking.Consumer(
        bootstrap_servers=SERVERS, auto_offset_reset="earliest", value_deserializer=partial(deserializer, ctx=context)
    ) as consumer:
        consumer.assign([(topic, 0)])
        records = []
        while not records:
            records = consumer.poll(1000)
    (record,) = records
    assert record.value == value, f"{record.value!r}, not {value!r}"


order = {"id": 7}
through_a_topic("avro", AvroSerializer(registry, RECORD), AvroDeserializer(registry, RECORD), order)
through_a_topic(
    "json", JSONSerializer(SCHEMA, registry), JSONDeserializer(SCHEMA, schema_registry_client=registry), order
)
through_a_topic(
    "protobuf",
    ProtobufSerializer(Order, registry, {"use.deprecated.format": False}),
    ProtobufDeserializer(Order, {"use.deprecated.format": False}, registry),
    Order(id=7),
)
