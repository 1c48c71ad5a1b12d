"""Kafka bytes <-> Python values. Imports nothing of ours, does no I/O."""
