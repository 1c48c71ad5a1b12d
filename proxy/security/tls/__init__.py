"""TLS of both sides: certificates and keys, contexts, their reload."""
