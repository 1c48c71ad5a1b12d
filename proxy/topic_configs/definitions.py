"""The sidecar's own topic configs: the table of their names, and which values they take (KIP-940)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ErrorCode

RECORD_VALIDATION_POLICY = "record.validation.policy"
LONGEST_VALUE = 32767  # bytes, as in Kafka: what a string holds in versions that are not flexible
LONGEST_MESSAGE = 1000  # characters of what a client is told

# Looks at a value. Raises ValueError: it cannot be, the text says why.
Check = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing becomes of what was asked for one topic, as the client is told."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """One config of the sidecar's. All are strings, and null where they are not set."""

    name: str
    documentation: str
    check: Check

    def refusal(self, value: str) -> Refusal | None:
        """Why this value cannot be set; None: it can."""
        if len(value.encode(errors="surrogateescape")) > LONGEST_VALUE:
            return invalid(f"The value of {self.name} is longer than {LONGEST_VALUE} bytes.")
        try:
            self.check(value)
        except ValueError as error:
            return invalid(f"Invalid value for configuration {self.name}: {error}"[:LONGEST_MESSAGE])
        except Exception as error:  # noqa: BLE001 - a policy's own bug must cost its author one answer only
            why = f"{self.name} cannot be set: the policy failed to look at it: {error!r}"
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, why[:LONGEST_MESSAGE])
        return None


Own = Mapping[str, OwnConfig]


def invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_CONFIG, message)


def own_configs(check_policy: Check) -> Own:
    """Every topic config that the sidecar adds to Kafka's."""
    configs = [
        OwnConfig(
            RECORD_VALIDATION_POLICY,
            "The record policy to use for the topic. This value should be meaningful to the record validation policy "
            "that the sidecar is configured with. If set to null (the default) then no validation will be performed "
            "for records sent to the topic.",
            check_policy,
        )
    ]
    return {config.name: config for config in configs}
