"""Protobuf: schemas as text or descriptors, and values in the wire format."""
