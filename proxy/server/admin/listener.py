"""The admin port, opened."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.runtime.admission import bind_socket
from kafka_sidecar.proxy.security.tls.live_tls import LiveTls
from kafka_sidecar.proxy.server.admin.access import AdminToken, TokenError
from kafka_sidecar.proxy.server.admin.http import AdminServer
from kafka_sidecar.proxy.server.admin.page import Pages

log = logging.getLogger(__name__)

DEFAULT_ADMIN = "127.0.0.1:9190"
HANDSHAKE_S = 5.0


async def serve_admin(pages: Pages, config: Config, tls: LiveTls | None = None) -> tuple[asyncio.Server, str]:
    """Serve pages at the configured address, which is returned too. Raises ConfigError."""
    configured = config.admin.listen
    token = _token(config.admin.token_file)
    host, port = host_port(configured or DEFAULT_ADMIN)
    try:
        bound = bind_socket(host, port)
    except OSError as error:
        if configured is not None:
            raise ConfigError(
                f"admin.listen: {configured} cannot be bound: {error.strerror or error}; choose another"
            ) from error
        bound = bind_socket(host, 0)
        log.warning("default admin port in use", extra={"address": DEFAULT_ADMIN, "port": bound.getsockname()[1]})
    address = f"{host}:{bound.getsockname()[1]}"
    return await _open(AdminServer(pages, token), bound, tls), address


async def _open(server: AdminServer, bound: socket.socket, tls: LiveTls | None) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    if tls is None:
        return await loop.create_server(server.protocol, sock=bound)
    return await loop.create_server(
        server.protocol, sock=bound, ssl=tls.serving_context(), ssl_handshake_timeout=HANDSHAKE_S
    )


def _token(path: Path | None) -> AdminToken | None:
    """Raises ConfigError."""
    try:
        return AdminToken(path) if path is not None else None
    except TokenError as error:
        raise ConfigError(f"admin.token_file: {error}") from error
