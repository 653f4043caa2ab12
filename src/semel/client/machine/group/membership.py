"""What a consumer needs of its membership, whichever protocol it is in."""

from __future__ import annotations

from typing import Protocol

from semel.client.machine.group.reactions import Reaction
from semel.client.machine.group.subscription import TopicSubscription
from semel.client.machine.promise import Promise
from semel.client.values import GroupMetadata
from semel.errors import KafkaError


class Membership(Protocol):
    error: KafkaError | None
    """Why this consumer is not a member. Whoever tells the application calls ``told_error``."""

    def subscribe(self, subscription: TopicSubscription) -> None:
        """Want these topics, from now on, and be a member for them."""
        ...

    def leave(self, reason: str, now_ms: float) -> Promise[None]:
        """Want no topics, and be no member any more. Kept when the coordinator knows, or cannot be told."""
        ...

    @property
    def is_subscribed(self) -> bool: ...

    @property
    def is_member(self) -> bool: ...

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics whose partitions have to be known."""
        ...

    @property
    def wants_all_topics(self) -> bool: ...

    def metadata(self) -> GroupMetadata:
        """Who this member is now. Without a generation it is none."""
        ...

    def renewed(self, member: GroupMetadata) -> GroupMetadata | None:
        """What that member has become, by generation or epoch; ``None`` if it is no more. Nobody stays nobody."""
        ...

    def react(self, reaction: Reaction, error: KafkaError, now_ms: float) -> None:
        """An answer to a commit or a fetch of offsets says this of the member that it was sent as: the current one."""
        ...

    def told_error(self) -> None: ...

    def poll(self, now_ms: float) -> None: ...

    def next_deadline_ms(self, now_ms: float) -> float: ...
