"""The text for a connection to a broker that failed."""

from __future__ import annotations

import ssl

from kafka_sidecar.proxy.telemetry.tls_failures import explain_to


def describe_failure(error: Exception) -> str:
    """What happened, without the address.

    >>> describe_failure(ConnectionRefusedError(111, "Connection refused"))
    'refused the connection'
    """
    match error:
        case ssl.SSLError():
            return explain_to("broker", error)
        case ConnectionRefusedError():
            return "refused the connection"
        case EOFError():
            return "closed the connection without a response"
        case TimeoutError():
            return "timed out"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
