"""The client of the admin port, for commands that ask a running sidecar, and the options that these have.

Python's HTTP client is imported by the first request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode, urlsplit

import typer

from kafka_sidecar.proxy.cli.output import exit_with_error, exit_with_failure
from kafka_sidecar.proxy.config.types import reached_at

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from ssl import SSLContext
    from urllib.error import HTTPError

TIMEOUT_S = 10.0
UNAUTHORIZED = 401
DEFAULT_ADMIN = "127.0.0.1:9190"
VARIABLE, TOKEN_VARIABLE = "KAFKA_SIDECAR__ADMIN__LISTEN", "KAFKA_SIDECAR__ADMIN__TOKEN_FILE"
URL_VARIABLE, CA_VARIABLE = "KAFKA_SIDECAR_ADMIN", "KAFKA_SIDECAR_ADMIN_CA"  # of these commands alone
LOOPBACK = ("127.0.0.1", "::1", "localhost")

AdminUrl = Annotated[
    str | None,
    typer.Option(
        "--admin",
        envvar=URL_VARIABLE,
        help=f"Admin port of the sidecar: URL or host:port; https:// with admin.tls. Default: ${VARIABLE}, or "
        f"{DEFAULT_ADMIN}.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", envvar=TOKEN_VARIABLE, help="The file of the sidecar's admin.token_file.")
]
Ca = Annotated[
    Path | None, typer.Option("--ca", envvar=CA_VARIABLE, help="PEM file with the CA of the admin port's certificate.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON of the admin port.")]
Principal = Annotated[str | None, typer.Option(help="Only of this principal, such as User:alice.")]
ClientId = Annotated[str | None, typer.Option(help="Only of this client id.")]
Client = Annotated[str | None, typer.Option(help="Only of this address of a client.")]


@dataclass(frozen=True, slots=True)
class AdminPort:
    """Where a sidecar is asked, and with what."""

    url: str | None
    token_file: Path | None = None
    ca: Path | None = None


def ask(admin: AdminPort, path: str, method: str = "GET") -> Any:
    """The JSON at a path of the admin port. Exits with 1 and a line on stderr if there is none."""
    with opened(admin, path, method) as page:
        return json.loads(page.read())


def with_query(path: str, wanted: Mapping[str, object]) -> str:
    """A path of the admin port with the values of a query that are given; a list has several."""
    given = {name: value for name, value in wanted.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True, errors='surrogateescape')}"


@contextmanager
def opened(admin: AdminPort, path: str, method: str = "GET") -> Iterator[HTTPResponse]:
    """The response to a request of the admin port, to be read. Exits as `ask`, also where reading it fails."""
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

    url = _base(admin.url) + path
    headers = {"Content-Type": "application/json", **_token(admin.token_file)}
    request = Request(url, headers=headers, method=method)  # noqa: S310
    handlers = [ProxyHandler({}), *([HTTPSHandler(context=_trusting(admin.ca, url))] if admin.ca is not None else [])]
    try:
        with build_opener(*handlers).open(request, timeout=TIMEOUT_S) as page:
            yield page
    except HTTPError as error:
        hint = f"; name its file with --token-file or ${TOKEN_VARIABLE}" if error.code == UNAUTHORIZED else ""
        exit_with_failure(_text_of(error) + hint)
    except OSError as error:
        reason = error.reason if isinstance(error, URLError) else error
        exit_with_failure(f"{url}: no sidecar answers there: {reason}; {_remedy(url, reason)}")
    except ValueError:
        exit_with_failure(f"{url}: the response is not JSON; is it the admin port of a kafka-sidecar?")


def _remedy(url: str, reason: object) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(reason):
        return f"name the CA of its certificate with --ca or ${CA_VARIABLE}"
    if (
        url.startswith("http://")
        and isinstance(reason, ConnectionError)
        and not isinstance(reason, ConnectionRefusedError)
    ):
        return f"if it has admin.tls, name it with https:// in --admin or ${URL_VARIABLE}"
    return f"name its admin port with --admin or ${URL_VARIABLE}"


def _trusting(ca: Path, url: str) -> SSLContext:
    """The certificate on loopback need not name it: no other program there has one of that CA."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=str(ca))
    except (OSError, ValueError) as error:
        exit_with_error(f"--ca: {ca} cannot be used: {error}")
    context.check_hostname = urlsplit(url).hostname not in LOOPBACK
    return context


def _token(path: Path | None) -> dict[str, str]:
    """The header with the token of a file."""
    if path is None:
        return {}
    try:
        return {"Authorization": f"Bearer {path.read_text(encoding='ascii').strip()}"}
    except (OSError, ValueError) as error:
        exit_with_error(f"--token-file, ${TOKEN_VARIABLE}: {path} cannot be read: {error}")


def _text_of(error: HTTPError) -> str:
    with error:
        try:
            return str(json.loads(error.read())["error"])
        except (ValueError, KeyError, TypeError, OSError):
            return f"{error.url}: status {error.code}; is it the admin port of a kafka-sidecar?"


def _base(admin: str | None) -> str:
    """The URL of an admin port.

    >>> _base("http://10.0.0.7:9190/"), _base("sidecar:9190"), _base("[::1]:9190")
    ('http://10.0.0.7:9190', 'http://sidecar:9190', 'http://[::1]:9190')
    """
    given = admin or os.environ.get(VARIABLE) or DEFAULT_ADMIN
    if given.startswith(("http://", "https://")):
        return given.rstrip("/")
    try:
        return f"http://{reached_at(given)}"
    except ValueError:
        exit_with_error(f"--admin: {given!r} is no address: write http://host:port or host:port")
