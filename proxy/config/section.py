"""What every section of the configuration file is."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, model_validator

from kafka_sidecar.plugins.settings import StrictScalars


class Section(StrictScalars):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_key_has_its_default(cls, values: Any) -> Any:
        """As "nodes:" with all its settings commented out."""
        if not isinstance(values, dict):
            return {} if values is None else values
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {key: value for key, value in values.items() if value is not None or key not in optional}
