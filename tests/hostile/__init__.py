"""Attacks on a running sidecar by a client that has no rights at the broker: ``python tests/hostile/run.py``."""
