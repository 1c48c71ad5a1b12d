"""TLS and SASL, of both sides."""
