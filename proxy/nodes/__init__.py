"""Brokers: their addresses, listeners, metadata and where responses name them."""
