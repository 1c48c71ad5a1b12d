"""Validation of produced records: the contract of KIP-940, and the built-in policies."""
