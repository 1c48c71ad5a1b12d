"""A client that does not read a response that is sent from a file."""

from __future__ import annotations

from pathlib import Path

from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.file_sender import sender_for
from kafka_sidecar.proxy.runtime.unlinked_file import UnlinkedFile
from support.in_process import Client, until


async def send_unread(connection: Connection, client: Client, value: bytes, folder: Path) -> None:
    """Returns once as much of the value is written as fits while the client is paused. It must be more than sockets
    hold."""
    file = UnlinkedFile(folder, len(value), lambda fds: None)
    file.open()
    file.write(0, value)
    client.pause()
    view = file.view
    sender = sender_for(connection, connection.to_client, [view])
    assert sender is not None
    sender.write(view)
    await until(lambda: connection.client.transport and connection.client.transport.get_write_buffer_size())
