"""Run by `helm test`: connects to every broker of the cluster at the address that the gateway gives to clients."""

import asyncio
import ssl
import sys
from pathlib import Path

from aiokafka.client import AIOKafkaClient

TLS = Path("/tls")  # the Secret of the listeners, if they have TLS


def security() -> dict:
    """Trusts the CA in the Secret, or its certificate itself; presents that certificate where one is required."""
    if not (TLS / "tls.crt").exists():
        return {}
    trusted = next(path for path in (TLS / "ca.crt", TLS / "tls.crt") if path.exists())
    context = ssl.create_default_context(cafile=str(trusted))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_cert_chain(TLS / "tls.crt", TLS / "tls.key")
    return {"security_protocol": "SSL", "ssl_context": context}


async def main(bootstrap: str) -> int:
    client = AIOKafkaClient(bootstrap_servers=bootstrap, **security())
    await client.bootstrap()
    unreached = 0
    try:
        for broker in client.cluster.brokers():
            is_reached = await client.ready(broker.nodeId)
            unreached += not is_reached
            result = "reached" if is_reached else "not reached"
            print(f"broker {broker.nodeId} at {broker.host}:{broker.port}: {result}")
    finally:
        await client.close()
    return 1 if unreached else 0


sys.exit(asyncio.run(main(sys.argv[1])))
