"""What a plug-in can do wrong with its contract. The texts quote nothing of a record, so they are logged in full."""

from __future__ import annotations


class ContractError(Exception):
    """A plug-in has passed or returned something that its contract does not allow, or read what it did not request."""


class ContractTypeError(ContractError, TypeError):
    """Something of another type."""


class ContractValueError(ContractError, ValueError):
    """Something of the right type that cannot be used."""
