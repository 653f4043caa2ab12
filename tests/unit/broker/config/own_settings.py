from __future__ import annotations

# The broker settings that Apache Kafka does not have.
OUR_OWN = {
    "audit.log.max.bytes",
    "audit.log.max.files",
    "audit.log.path",
    "connections.max.stalled.ms",
    "flush",
    "group.version",
    "max.partitions",
    "queued.max.response.bytes",
    "sasl.plain.without.tls",
    "transaction.version",
}

# Those of Kafka's authorizer: a broker of Apache Kafka reads them and does not describe them.
OF_THE_AUTHORIZER = {"allow.everyone.if.no.acl.found", "super.users"}

# Kafka 4 has no ZooKeeper.
OF_ZOOKEEPER = {"zookeeper.connect", "zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms"}

# A broker of Apache Kafka has them with the prefix of a listener, and describes those that are set.
OF_A_LISTENER = {f"{mechanism}.sasl.jaas.config" for mechanism in ("plain", "scram-sha-256", "scram-sha-512")}

# Kafka alters these while it runs, for one broker; here the file that they name is read again when it changes.
AT_START_ONLY = {
    "advertised.listeners": None,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "ssl.cipher.suites": "",
    "ssl.client.auth": "none",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.key.password": None,
    "ssl.keystore.certificate.chain": None,
    "ssl.keystore.key": None,
    "ssl.keystore.location": None,
    "ssl.truststore.certificates": None,
    "ssl.truststore.location": None,
}

# Those whose default is another than Kafka's.
OTHER_DEFAULT = {
    "default.replication.factor",
    "listeners",
    "log.dirs",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "min.insync.replicas",
    "node.id",
    "queued.max.request.bytes",
    "replica.fetch.response.max.bytes",
    "replica.lag.time.max.ms",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.server.max.receive.size",
    "security.inter.broker.protocol",
    "ssl.keystore.type",
    "ssl.truststore.type",
    *OF_ZOOKEEPER,
}
