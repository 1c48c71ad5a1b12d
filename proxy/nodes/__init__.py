"""Brokers: addresses, listeners, metadata, and where responses name them."""
