"""Kafka bytes <-> Python values. Imports nothing of ours, does no I/O.

Call it through `codec.message` (decode, encode, skipper, span ...), `codec.headers` and `codec.apis`; the messages
themselves are in `codec.messages`, one module per API, imported only where one is needed.
"""
