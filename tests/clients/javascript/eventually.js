// Waits for what a broker tells a little later than it answers: Apache Kafka's own view of topics, offsets of a transaction
// whose markers are being written.
import assert from "node:assert/strict";

export async function eventually(expected, observe, patienceMs = 120_000) {
  const deadline = Date.now() + patienceMs;
  let seen = await observe();
  while (JSON.stringify(seen) !== JSON.stringify(expected) && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    seen = await observe();
  }
  assert.deepEqual(seen, expected);
}
