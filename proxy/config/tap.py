"""The section `tap` of the configuration file."""

from __future__ import annotations

from pydantic import Field

from kafka_sidecar.proxy.config.section import Section


class Tap(Section):
    enabled: bool = True
    """Whether the admin port serves `/tap`, which `kafka-sidecar tap` reads. Turned off, it ends open taps."""
    allow_keys: bool = False
    """Whether a tap may show the keys of records, with `--show-keys`; otherwise only hashes of them."""
    allow_values: bool = False
    """Whether a tap may show the values of records and of their headers, with `--show-values`."""
    max_open: int = Field(default=4, ge=1, le=64)
    """How many taps may be open at a time."""
    max_rate: int = Field(default=100, ge=1, le=10_000)
    """Lines a second of a tap, of all workers together; those of five seconds may come at once. More are
    skipped, and counted."""
