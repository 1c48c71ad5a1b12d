"""Avro's schemas and binary encoding, as far as values are checked against their writer's schema."""
