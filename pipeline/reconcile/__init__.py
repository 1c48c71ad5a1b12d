"""Compares what was sent with what was read, from the events that the sidecars have audited."""
