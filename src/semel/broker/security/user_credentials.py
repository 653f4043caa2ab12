"""The SCRAM credentials of the cluster's users, for the SASL mechanisms of a broker.

Every name has a credential. For a name without a user it is a made-up one (``semel.security.sasl.unknown_users``), so
that a client cannot find out which users exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from semel.metadata.image import ClusterImage
from semel.metadata.security.image import Credentials, security_of
from semel.security.sasl.scram_credentials import ScramCredential
from semel.security.sasl.unknown_users import UnknownUsers
from semel.wire.codes import ScramMechanism

# For PLAIN the first of these is used for which the user has a credential.
_FOR_PLAIN: Final = (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)


class UserCredentials:
    """The SCRAM credentials of all users of the image.

    ``spare_secret`` is the secret for made-up credentials in a cluster that never had a user.
    """

    def __init__(self, image: Callable[[], ClusterImage], spare_secret: bytes) -> None:
        self._image = image
        self._spare_secret = spare_secret
        self._users: Mapping[str, Credentials] | None = None
        """The users from which ``_unknown`` was made."""
        self._unknown: dict[ScramMechanism, UnknownUsers] = {}
        self._plain_by_default = _FOR_PLAIN[0]

    def scram(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        known = self._known_users().get(user, {}).get(mechanism)
        # Made up for existing users too, so that all names take the same time.
        made_up = self._unknown[mechanism].credential(user)
        return made_up if known is None else known

    def plain(self, user: str) -> tuple[ScramMechanism, ScramCredential]:
        mechanism = _for_plain(self._known_users().get(user, {})) or self._plain_by_default
        return mechanism, self.scram(mechanism, user)

    def _known_users(self) -> Mapping[str, Credentials]:
        security = security_of(self._image())
        users = security.users
        if users is not self._users:
            self._users = users
            secret = security.user_secret or self._spare_secret
            for mechanism in _FOR_PLAIN:
                of_mechanism = {name: known[mechanism] for name, known in users.items() if mechanism in known}
                self._unknown[mechanism] = UnknownUsers(mechanism, secret, of_mechanism)
            chosen = [_for_plain(known) for known in users.values()]
            # An unknown user takes as much time as most users.
            self._plain_by_default = max(_FOR_PLAIN, key=chosen.count)
        return users


def _for_plain(known: Credentials) -> ScramMechanism | None:
    return next((mechanism for mechanism in _FOR_PLAIN if mechanism in known), None)
