"""The sidecar's own topic configs: the table of their names, and which values they take (KIP-940)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.proxy.exchanges.rejections import Rejection

RECORD_VALIDATION_POLICY = "record.validation.policy"
MAX_VALUE_BYTES = 32767  # as in Kafka: what a string holds in versions that are not flexible
MAX_MESSAGE_CHARACTERS = 1000  # of an error message to a client

# Validates a value. Raises ValueError where it is invalid; the text says why.
Check = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """One config of the sidecar's. All are strings, and null where they are not set."""

    name: str
    documentation: str
    check: Check

    def reject(self, value: str) -> Rejection | None:
        """Why this value cannot be set; None where it is valid."""
        try:
            self.check(value)
        except ValueError as error:
            return invalid(f"Invalid value for configuration {self.name}: {error}"[:MAX_MESSAGE_CHARACTERS])
        except Exception as error:  # noqa: BLE001 - a policy's own bug must cost its author one response only
            why = f"{self.name} cannot be set: the policy failed to check it: {error!r}"
            return Rejection(ErrorCode.UNKNOWN_SERVER_ERROR, why[:MAX_MESSAGE_CHARACTERS])
        return None


OwnConfigs = Mapping[str, OwnConfig]  # by name


def invalid(message: str) -> Rejection:
    return Rejection(ErrorCode.INVALID_CONFIG, message)


def own_configs(check_policy: Check) -> OwnConfigs:
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
