"""Schemas of records: their languages, the forms of their ids, and the registries that have them."""
