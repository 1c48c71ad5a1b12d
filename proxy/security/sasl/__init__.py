"""Logins by SASL: mechanisms, conversations, credentials and tokens."""
