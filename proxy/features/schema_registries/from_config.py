"""What is wrong with the files that ``schema_registries:`` names."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake
from kafka_sidecar.proxy.config.registries import registries
from kafka_sidecar.proxy.config.sasl import SecretError, read_secret

SECRET_FILES = ("password_file", "token_file", "client_secret_file")


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """No registry is asked anything."""
    opened = registries(config.schema_registries)
    for name, entry in config.schema_registries.items():
        at = ("schema_registries", name)
        try:
            opened[name]
        except ValueError as error:
            setting, _, text = str(error).partition(": ")
            yield Mistake((*at, setting), text)
        for setting in SECRET_FILES:
            try:
                read_secret(None, getattr(entry, setting), "")
            except SecretError as error:
                yield Mistake((*at, setting), str(error).partition(": ")[2])
