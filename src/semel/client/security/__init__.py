"""TLS and SASL: how a client proves its identity, and which brokers it trusts."""
