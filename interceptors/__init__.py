"""Observing and editing records and commits: the contracts of KIP-42 and KIP-547, and the built-in interceptors."""
