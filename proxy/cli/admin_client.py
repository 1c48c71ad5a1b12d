"""Requests to the admin port of a running sidecar, for commands. Python's HTTP client is imported by the first one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from kafka_sidecar.proxy.cli.plugin_list import exit_with_error
from kafka_sidecar.proxy.config.types import host_port

if TYPE_CHECKING:
    from urllib.error import HTTPError

TIMEOUT_S = 10.0
DEFAULT_ADMIN = "127.0.0.1:9190"
VARIABLE, TOKEN_VARIABLE = "KAFKA_SIDECAR__ADMIN__LISTEN", "KAFKA_SIDECAR__ADMIN__TOKEN_FILE"
LOCAL = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]"}  # what a wildcard is reached by

AdminUrl = Annotated[
    str | None,
    typer.Option(
        "--admin", help=f"Admin port of the sidecar: URL or host:port. Default: ${VARIABLE}, or {DEFAULT_ADMIN}."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON of the admin port.")]


def ask(admin: str | None, path: str, method: str = "GET", body: object = None) -> Any:
    """The JSON at a path of the admin port. Exits with 1 and a line on stderr if there is none."""
    from urllib.error import HTTPError, URLError
    from urllib.request import ProxyHandler, Request, build_opener

    url = _base(admin) + path
    data = json.dumps(body).encode() if body is not None else None
    request = Request(url, data, {"Content-Type": "application/json", **_token()}, method=method)  # noqa: S310
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_S) as page:
            return json.loads(page.read())
    except HTTPError as error:
        _fail(_text_of(error))
    except OSError as error:
        reason = error.reason if isinstance(error, URLError) else error
        _fail(f"{url}: no sidecar answers there: {reason}; name its admin port with --admin")
    except ValueError:
        _fail(f"{url}: the response is not JSON; is it the admin port of a kafka-sidecar?")


def _token() -> dict[str, str]:
    """The header with the token of the file that the environment names, if it does."""
    if not (path := os.environ.get(TOKEN_VARIABLE)):
        return {}
    try:
        return {"Authorization": f"Bearer {Path(path).read_text(encoding='ascii').strip()}"}
    except (OSError, ValueError) as error:
        exit_with_error(f"${TOKEN_VARIABLE}: {path} cannot be read: {error}")


def _text_of(error: HTTPError) -> str:
    with error:
        try:
            return str(json.loads(error.read())["error"])
        except (ValueError, KeyError, TypeError, OSError):
            return f"{error.url}: status {error.code}; is it the admin port of a kafka-sidecar?"


def _base(admin: str | None) -> str:
    """The URL of an admin port.

    >>> _base("http://10.0.0.7:9190/"), _base("sidecar:9190"), _base("0.0.0.0:9190")
    ('http://10.0.0.7:9190', 'http://sidecar:9190', 'http://127.0.0.1:9190')
    """
    given = admin or os.environ.get(VARIABLE) or DEFAULT_ADMIN
    if given.startswith(("http://", "https://")):
        return given.rstrip("/")
    try:
        host, port = host_port(given)
    except ValueError:
        exit_with_error(f"--admin: {given!r} is no address: write http://host:port or host:port")
    return f"http://{LOCAL.get(host, host)}:{port}"


def _fail(message: str) -> NoReturn:
    typer.echo(f"kafka-sidecar: {message}", err=True)
    raise typer.Exit(1)
