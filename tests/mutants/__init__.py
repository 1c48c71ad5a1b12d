"""Faults on purpose, each with the tests that must find it; `make mutations`."""
