"""Counters and log lines."""
