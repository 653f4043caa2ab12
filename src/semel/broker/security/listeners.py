"""The listeners of a broker according to its settings, checked. This module does no I/O.

Every listener has a name; its protocol comes from ``listener.security.protocol.map``. In a cluster one of them,
``inter.broker.listener.name``, is for brokers alone, and the others are for clients.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from semel.broker.config.broker_config import BrokerConfig
from semel.broker.config.listener_config import NamedAddress, of_one_listener, parse_listener
from semel.metadata.image import Endpoint
from semel.security.security_protocol import SecurityProtocol
from semel.settings import SettingError

UNREACHABLE_HOSTS = frozenset({"0.0.0.0", "::"})
"""Addresses that mean all addresses of a machine. A broker can listen on them; a client cannot connect to them."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener of the settings."""

    name: str
    protocol: SecurityProtocol
    host: str
    """The address to listen on; empty for all addresses."""
    port: int
    """The port to listen on; 0 for any free port."""
    advertised: Endpoint
    """The endpoint that clients receive. An empty host means this machine's name, port 0 the port of the listener."""

    def __str__(self) -> str:
        return _written(NamedAddress(self.name, self.host, self.port))


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listeners of one broker."""

    clients: tuple[Listener, ...]
    brokers: Listener | None
    """The listener for the other brokers; None if the settings name none."""


def configured_listeners(config: BrokerConfig) -> Listeners:
    """Return the listeners of the setting ``listeners``, which must be set. Raises SettingError."""
    addresses = _addresses("listeners", config.listeners or ())
    _refuse_shared_ports(addresses.values())
    advertised = _advertised(config, addresses)
    protocols = _protocols(config)
    found = {}
    for name, (_, host, port) in addresses.items():
        if name not in protocols:
            raise SettingError(
                "listener.security.protocol.map",
                f"listeners has {name}, and listener.security.protocol.map says no protocol for it; it has "
                f"{', '.join(protocols)}",
            )
        found[name] = Listener(name, protocols[name], host, port, advertised[name])
    _refuse_unknown_prefixes(config, found)
    for_brokers = _inter_broker(config, found)
    clients = tuple(listener for listener in found.values() if listener is not for_brokers)
    if not clients:
        raise SettingError(
            "listeners",
            f"listeners has only {for_brokers}, which inter.broker.listener.name gives to the brokers: add one for "
            "clients",
        )
    return Listeners(clients, for_brokers)


def _addresses(setting: str, texts: tuple[str, ...]) -> dict[str, NamedAddress]:
    addresses: dict[str, NamedAddress] = {}
    for text in texts:
        address = parse_listener(text)
        assert address is not None, "the setting has a rule"
        if address.name in addresses:
            raise SettingError(setting, f"{setting} has {address.name} twice: each listener has a name of its own")
        addresses[address.name] = address
    return addresses


def _refuse_shared_ports(addresses: Collection[NamedAddress]) -> None:
    taken: dict[tuple[str, int], str] = {}
    for name, host, port in addresses:
        other = taken.setdefault((host, port), name) if port else name
        if other != name:
            raise SettingError("listeners", f"listeners has {other} and {name} on one port, {port}: each needs its own")


def _advertised(config: BrokerConfig, addresses: dict[str, NamedAddress]) -> dict[str, Endpoint]:
    advertised = _addresses("advertised.listeners", config.advertised_listeners or ())
    for name in advertised:
        if name not in addresses:
            raise SettingError(
                "advertised.listeners",
                f"advertised.listeners has {name}, and listeners has not; it has {', '.join(addresses)}",
            )
    endpoints = {}
    for name, own in addresses.items():
        address = advertised.get(name, own)
        if address.host in UNREACHABLE_HOSTS:
            raise SettingError(
                "advertised.listeners",
                f"{_written(address)} is not an address that clients can reach: name one in advertised.listeners",
            )
        endpoints[name] = Endpoint(address.host, address.port)
    return endpoints


def _protocols(config: BrokerConfig) -> dict[str, SecurityProtocol]:
    pairs = (text.rpartition(":") for text in config.listener_security_protocol_map)
    return {name.upper(): SecurityProtocol(protocol) for name, _, protocol in pairs}


def _refuse_unknown_prefixes(config: BrokerConfig, listeners: dict[str, Listener]) -> None:
    known = {name.lower() for name in listeners}
    for setting in config.sources.effective():
        parts = of_one_listener(setting)
        if parts is not None and parts[0] not in known:
            raise SettingError(setting, f"{setting} is for a listener that listeners has not; it has {sorted(known)}")


def _inter_broker(config: BrokerConfig, listeners: dict[str, Listener]) -> Listener | None:
    name, protocol = config.inter_broker_listener_name, config.security_inter_broker_protocol
    if name is not None and protocol is not None:
        raise SettingError(
            "inter.broker.listener.name",
            f"inter.broker.listener.name ({name}) and security.inter.broker.protocol ({protocol}) say the same thing: "
            "set only one",
        )
    setting = "inter.broker.listener.name" if name is not None else "security.inter.broker.protocol"
    wanted = (name or protocol or "").upper()
    if wanted and wanted not in listeners:
        raise SettingError(setting, f"{setting} is {wanted}, and listeners has only {', '.join(listeners)}")
    if config.zookeeper_connect is None:
        return None  # No other broker connects; the listener is for clients too.
    if wanted:
        return listeners[wanted]
    guarded = [listener for listener in listeners.values() if listener.protocol is not SecurityProtocol.PLAINTEXT]
    if guarded:
        raise SettingError(
            "inter.broker.listener.name",
            f"listeners has {guarded[0]}, and without inter.broker.listener.name the brokers of this cluster would "
            "reach each other where no proof is asked: name a listener for them",
        )
    return None


def _written(address: NamedAddress) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{address.name}://{host}:{address.port}"
