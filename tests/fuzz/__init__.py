"""Hostile bytes for every decoder, and the valid messages that they are made from."""
