// Waits for what a broker tells a little later than it answers: Apache Kafka's own view of topics, offsets of a transaction
// whose markers are being written.
import assert from "node:assert/strict";

const PAUSE_MS = 10;
const PATIENCE_MS = 120_000;

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

// Resolves with the result of an action, which is repeated while the broker does not know the topic yet.
export async function onceKnown(action) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await action();
    } catch (error) {
      if (error.type !== "UNKNOWN_TOPIC_OR_PARTITION" || Date.now() >= deadline) throw error;
    }
    await pause();
  }
}

export async function eventually(expected, observe) {
  const deadline = Date.now() + PATIENCE_MS;
  let seen = await onceKnown(observe);
  while (JSON.stringify(seen) !== JSON.stringify(expected) && Date.now() < deadline) {
    await pause();
    seen = await onceKnown(observe);
  }
  assert.deepEqual(seen, expected);
}
