"""Who a client is and whom it trusts: TLS and SASL."""
