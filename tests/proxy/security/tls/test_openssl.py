"""What `openssl s_client` gets at each listener: the table of docs/how-to/tls.md, row by row."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.certificates import authority
from harness.versions import ROOT
from support.examples import some
from support.fake_broker import FakeBroker
from support.in_process import port_of, serving, until

CA, OTHER = authority(), authority("Other CA")
LISTENERS = (None, 1)  # bootstrap, and that of a node
RENEGOTIATE = ", then `R`"


def rows() -> Iterator[tuple[str, str, str]]:
    """Arguments of openssl, the setting of client certificates, and the cipher suite or the error."""
    page = (ROOT / "docs" / "how-to" / "tls.md").read_text()
    _, table = page.split("| `openssl s_client` | `none` | `required` |\n")
    for line in table.splitlines()[1:]:
        if not line.startswith("|"):
            return
        arguments, none, required = (cell.strip() for cell in line.strip("| ").split(" | "))
        yield arguments, "none", none
        yield arguments, "required", required


async def s_client(port: int, folder: Path, arguments: str) -> asyncio.subprocess.Process:
    checked = ("-verify_return_error", "-verify_hostname", "localhost", "-CAfile", str(CA.write(folder)))
    return await asyncio.create_subprocess_exec(
        "openssl", "s_client", "-connect", f"127.0.0.1:{port}", *checked, *arguments.split(), cwd=folder,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


# Each row at one of both listeners, unless all examples are taken.
@pytest.mark.parametrize(
    ("arguments", "certificates", "result", "node"),
    [(*row, node) for at, row in enumerate(rows()) for node in some(LISTENERS, of=2, at=at)],
)
async def test_openssl_gets_what_the_table_says(
    arguments: str, certificates: str, result: str, node: int | None, tmp_path: Path
) -> None:
    chain, key = CA.issue("sidecar").write(tmp_path, "sidecar")
    CA.issue("app").write(tmp_path, "app")
    OTHER.issue("other").write(tmp_path, "other")
    tls = {"certificate": chain, "key": key, "ca": CA.write(tmp_path), "client_certificates": certificates}
    async with FakeBroker(1) as broker, serving(broker, clients={"tls": tls}) as server, asyncio.timeout(20):
        await until(lambda: server.addresses.nodes)
        asked = arguments.split("`")[1]
        openssl = await s_client(port_of(server, node), tmp_path, asked)
        assert openssl.stdin is not None
        listener = server.tls.clients
        assert listener is not None
        if result.startswith("`") or RENEGOTIATE in arguments:
            await until(lambda: listener.stats.handshakes or openssl.returncode is not None)
            openssl.stdin.write(b"R\n" if RENEGOTIATE in arguments else b"Q\n")
        said = (await openssl.communicate())[0].decode()
        if result.startswith("`"):
            assert openssl.returncode == 0, said
            assert f"Cipher is {result.strip('`')}\n" in said
            assert "Compression: NONE" in said
            assert re.search(r"subject=CN ?= ?sidecar\n", said)
            assert listener.stats.handshakes == 1
        else:
            assert openssl.returncode != 0
            assert re.search(rf"SSL routines:\w*:[^:]*{result}", said), said


async def test_openssl_gets_nothing_where_no_tls_is_configured(tmp_path: Path) -> None:
    async with FakeBroker(1) as broker, serving(broker) as server, asyncio.timeout(20):
        openssl = await s_client(port_of(server), tmp_path, "-tls1_2")
        assert "Cipher is (NONE)" in (await openssl.communicate())[0].decode()
        assert openssl.returncode != 0
        assert server.tls.clients is None


@pytest.mark.parametrize(
    ("cipher", "is_accepted"), [("ECDHE-ECDSA-AES256-GCM-SHA384", True), ("ECDHE-ECDSA-AES128-GCM-SHA256", False)]
)
async def test_a_listener_with_one_cipher_suite_accepts_no_other(
    cipher: str, is_accepted: bool, tmp_path: Path
) -> None:
    chain, key = CA.issue("sidecar").write(tmp_path, "sidecar")
    tls = {"certificate": chain, "key": key, "ciphers": ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]}
    async with FakeBroker(1) as broker, serving(broker, clients={"tls": tls}) as server, asyncio.timeout(20):
        openssl = await s_client(port_of(server), tmp_path, f"-tls1_2 -cipher {cipher}")
        listener = server.tls.clients
        assert listener is not None
        await until(lambda: listener.stats.handshakes or openssl.returncode is not None)
        said = (await openssl.communicate(b"Q\n" if is_accepted else None))[0].decode()
        assert (f"Cipher is {cipher}\n" in said, openssl.returncode == 0) == (is_accepted, is_accepted), said
