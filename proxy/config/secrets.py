"""Settings that are secret: from the environment or a file, never from the configuration file, never shown.

Files are read for each login, so that a secret may be replaced while the sidecar runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from kafka_sidecar.plugins.remedies import VariableText
from kafka_sidecar.proxy.config.mistakes import Location, variable_of

MAX_SECRET_BYTES = 64 << 10


class SecretError(ValueError):
    """A secret cannot be read; one line that names its setting, where it should be, and the remedy."""


def reject_inline(values: Mapping[str, Any], secrets: Mapping[str, str], at: Location) -> None:
    """Raises ValueError where the file itself has a secret.

    Args:
        values: of a section.
        secrets: the keys of those that are secret, and the name of the setting of each.
        at: where the section is.
    """
    for key, name in secrets.items():
        if isinstance(values.get(key), VariableText | SecretStr | None):
            continue
        raise ValueError(
            f"{key}: a secret is not written into this file; set the environment variable {variable_of((*at, name))}, "
            f"or {name}_file to a file with it"
        )


def read_secret(value: SecretStr | None, file: Path | None, setting: str) -> str | None:
    """The secret; None where neither is given. Raises SecretError."""
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_SECRET_BYTES).decode().rstrip("\r\n")
    except OSError as error:
        raise SecretError(f"{setting}_file: {file} cannot be read: {error.strerror}; mount the secret there") from None
    except UnicodeDecodeError:
        raise SecretError(f"{setting}_file: {file} is not text in UTF-8; write the secret as text") from None
    if not text:
        raise SecretError(f"{setting}_file: {file} is empty; write the secret into it")
    return text
