"""The election of a group's protocol, which is its assignor.

Of the protocols that every member offers, the one that most members prefer is elected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.requests import Protocols


def common_protocols(members: Iterable[ClassicMember]) -> list[str]:
    """Return the protocols that all members offer, in the first member's order."""
    offers = [[offered.name for offered in member.protocols] for member in members]
    if not offers:
        return []
    common = set(offers[0]).intersection(*offers[1:])
    return [name for name in dict.fromkeys(offers[0]) if name in common]


def elected_protocol(members: Iterable[ClassicMember]) -> str:
    """Return the protocol with the most votes. Each member votes for the first in its list that all members offer.

    Of protocols with the same number of votes, the one that the first member prefers is elected.
    """
    members = list(members)
    common = common_protocols(members)
    assert common, "a member without a common protocol is not let in"
    votes: Counter[str] = Counter(dict.fromkeys(common, 0))
    for member in members:
        votes[next(offered.name for offered in member.protocols if offered.name in votes)] += 1
    return max(common, key=votes.__getitem__)


def can_join(protocols: Protocols, members: Iterable[ClassicMember]) -> bool:
    """Whether at least one of ``protocols`` is offered by all ``members``."""
    common = common_protocols(members)
    return any(offered.name in common for offered in protocols)
