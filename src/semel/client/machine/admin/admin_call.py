"""One call of an admin client in progress: the keys with a value, the failed ones, and those still to ask about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from semel.client.admin.results import Results
from semel.client.machine.admin.ask import Ask
from semel.client.machine.connection.promise import Promise
from semel.client.machine.connection.retry import Retry
from semel.errors import AbortableError, ErrorCode, Family, KafkaError, RetriableError, TimedOut, family_of
from semel.wire.apis import APIS

K = TypeVar("K")
V = TypeVar("V")


# The meaning of an error code, for responses that have no message.
_RULES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "no broker knows it, or this client may not know of it",
    ErrorCode.UNKNOWN_TOPIC_ID: "no broker knows it",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the log does not reach from its first offset to this one",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "the group has members; they must leave first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members, and only they may commit for it",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read this topic",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "no coordinator knows it",
    ErrorCode.INVALID_PRODUCER_EPOCH: "the partition knows a newer epoch of this producer",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "the partition knows a newer epoch of the coordinator",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "this is no name for a topic",
}


@dataclass(slots=True, eq=False)
class Item:
    """A key that is asked about and not settled yet."""

    retry: Retry
    why: str = "no broker could be asked"
    """What the key waits for, for the message of a timeout."""
    is_sent: bool = False
    was_lost: bool = False
    not_found_count: int = 0
    """How often a broker said that it does not exist."""
    outdated_at: int = -1
    """The view of the cluster, counted in updates, that was wrong about this key: the key waits for a newer one."""


class AdminCall(Generic[K, V]):
    def __init__(
        self, ask: Ask[K, V], keys: Iterable[K], retry: Retry, *, deadline_ms: float, timeout_ms: float
    ) -> None:
        self.ask = ask
        self.deadline_ms = deadline_ms
        self.promise: Promise[Results[K, V]] = Promise()
        self._timeout_ms = timeout_ms
        self._keys = tuple(dict.fromkeys(keys))
        self._found: dict[K, V] = {}
        self._failed: dict[K, KafkaError] = {}
        self.open: dict[K, Item] = {key: Item(retry) for key in self._keys}
        self._settle_if_done()

    def found(self, key: K, value: V) -> None:
        if self.open.pop(key, None) is not None:
            self._found[key] = value
            self._settle_if_done()

    def refused(self, key: K, code: ErrorCode, message: str) -> None:
        """Settle a key with an error that no retry will change."""
        item = self.open.get(key)
        if item is not None:
            said = f": {message or _RULES.get(code, '')}".removesuffix(": ")
            may_be_done = "" if not item.was_lost else "; a try was not answered, and may have been served"
            text = f"{self.title(key)}{said}{may_be_done}"
            kind = RetriableError if family_of(code) is Family.RETRIABLE else AbortableError
            self.failed(key, kind(code, text))

    def failed(self, key: K, error: KafkaError) -> None:
        if self.open.pop(key, None) is not None:
            self._failed[key] = error
            self._settle_if_done()

    def out_of_time(self) -> None:
        for key, item in tuple(self.open.items()):
            may_be_done = "; it may have been served" if item.is_sent or item.was_lost else ""
            self.failed(
                key,
                TimedOut(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{self.title(key)} took longer than default.api.timeout.ms ({self._timeout_ms:.0f} ms): "
                    f"{'no answer yet' if item.is_sent else item.why}{may_be_done}",
                ),
            )

    def fail(self, error: KafkaError) -> None:
        for key in tuple(self.open):
            self.failed(key, error)

    def title(self, key: K) -> str:
        """Return what this call does with one key, in words: "DeleteTopics of topic 'orders'"."""
        return f"{APIS[self.ask.api_key].name} of {self.ask.name(key)}"

    def next_deadline_ms(self, now_ms: float) -> float:
        retries = (item.retry.next_deadline_ms(now_ms) for item in self.open.values() if not item.is_sent)
        return min((self.deadline_ms, *retries))

    def _settle_if_done(self) -> None:
        if not self.open:
            self.promise.fulfil(Results(self._keys, self._found, self._failed))
