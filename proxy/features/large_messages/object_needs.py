"""What exchanges need of the object store."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_sidecar.plugins.effects import Need

STORAGE_ERROR = 56  # KAFKA_STORAGE_ERROR: clients try again


@dataclass(frozen=True, slots=True)
class PutObjects(Need):
    """Store objects (key, value). Raises OSError if one of them is not stored, or not in time."""

    objects: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class GetObject(Need):
    """Read an object of at most ``max_size`` bytes. Answered with None if there is none, or it is larger.

    Raises OSError if the store does not respond in time.
    """

    key: str
    max_size: int
