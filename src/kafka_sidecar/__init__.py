"""A sidecar proxy that speaks the Kafka wire protocol."""

__version__ = "0.1.0"
