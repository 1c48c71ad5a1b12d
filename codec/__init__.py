"""Kafka bytes <-> Python values. Imports no other package of the project, does no I/O.

Use it through `codec.message` (decode, encode, skipper, span ...), `codec.envelope`, `codec.headers` and `codec.apis`.
The messages are in `codec.messages`, one module per API, imported only where they are needed.
"""
