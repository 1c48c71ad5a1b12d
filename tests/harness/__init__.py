"""Real brokers, real clients and a real sidecar for the tests. Nothing here starts before it is asked to."""
