"""The commands that ask a running sidecar by its admin port: `explain`, `topics`, `log-level`.

Python's HTTP client is imported by the first request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from urllib.parse import quote, urlencode, urlsplit

import typer

from kafka_sidecar.proxy.cli.output import say
from kafka_sidecar.proxy.cli.plugin_list import exit_with_error
from kafka_sidecar.proxy.config.types import host_port

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
LOCAL = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]"}  # what a wildcard is reached by

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
INDENT = 14
WIDTH = 120


@dataclass(frozen=True, slots=True)
class AdminPort:
    """Where a sidecar is asked, and with what."""

    url: str | None
    token_file: Path | None = None
    ca: Path | None = None


def ask(admin: AdminPort, path: str, method: str = "GET", body: object = None) -> Any:
    """The JSON at a path of the admin port. Exits with 1 and a line on stderr if there is none."""
    with opened(admin, path, method, body) as page:
        return json.loads(page.read())


@contextmanager
def opened(admin: AdminPort, path: str, method: str = "GET", body: object = None) -> Iterator[HTTPResponse]:
    """The response to a request of the admin port, to be read. Exits as `ask`, also where reading it fails."""
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

    url = _base(admin.url) + path
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Content-Type": "application/json", **_token(admin.token_file)}
    request = Request(url, data, headers, method=method)  # noqa: S310
    handlers = [ProxyHandler({}), *([HTTPSHandler(context=_trusting(admin.ca, url))] if admin.ca is not None else [])]
    try:
        with build_opener(*handlers).open(request, timeout=TIMEOUT_S) as page:
            yield page
    except HTTPError as error:
        hint = f"; name its file with --token-file or ${TOKEN_VARIABLE}" if error.code == UNAUTHORIZED else ""
        _fail(_text_of(error) + hint)
    except OSError as error:
        reason = error.reason if isinstance(error, URLError) else error
        _fail(f"{url}: no sidecar answers there: {reason}; {_remedy(url, reason)}")
    except ValueError:
        _fail(f"{url}: the response is not JSON; is it the admin port of a kafka-sidecar?")


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
    say(f"kafka-sidecar: {message}", err=True)
    raise typer.Exit(1)


def explain(
    rejection_id: Annotated[str, typer.Argument(metavar="ID", help="From an error message or a log line.")],
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Print why something was rejected or denied."""
    found = ask(AdminPort(admin, token_file, ca), f"/rejections/{quote(rejection_id, safe='')}")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    place = f"{found['topic']}-{found['partition']}" if "denial" not in found else _denial(found["denial"])
    if "producer" in found:
        place = _producer(found)
    say(f"{place}: {found['outcome']} at {found['timestamp']} by {found['policy']} ({found['reason']})")
    for name, text in _lines(found):
        say(*wrap(text, WIDTH, initial_indent=f"  {name:{INDENT - 2}}", subsequent_indent=" " * INDENT))


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A name and a text for each line."""
    yield "message", found["message"]
    if found["records"]:
        of = f" of {found['batch']['records']}" if found["batch"] else ""
        yield "records", f"{found['rejected_records']}{of} rejected; index in the batch, policy and violation:"
    for record in found["records"]:
        index = "the batch" if record["index"] < 0 else str(record["index"])
        yield "", f"{index}: {record['policy']} ({record['reason']}): {record['message']}"
    yield "client", _named(found["client"])
    if found["batch"]:
        yield "batch", _named(found["batch"])
    if "producer" in found:
        yield "required", f"by {found['producer']['source']}, mode {found['mode']}:"
        yield from (("", fault) for fault in found["producer"]["faults"])
    if found["configuration"]:
        yield from _configuration(found["configuration"])
    yield "what to do", found["remedy"]


def _configuration(applied: dict[str, Any]) -> Iterator[tuple[str, str]]:
    share = f", enforced for {applied['percent']} % of the batches" if applied["percent"] < 100 else ""
    yield "policies", f"{applied['record.validation.policy']} (from {applied['source']}, mode {applied['mode']}{share})"
    for policy in applied["policies"]:
        argument = f" with {policy['argument']!r}" if policy["argument"] else ""
        about = f"{policy['class']}; reads {policy['reads']}; fails {policy['on_error']}"
        settings = f"; settings {json.dumps(policy['settings'])}" if policy["settings"] else ""
        yield "", f"{policy['name']}{argument}: {about}{settings}"


def _denial(denial: dict[str, Any]) -> str:
    what = f"{denial['principal']}, {denial['operation']} of {denial['resource_type']} {denial['resource']}"
    return f"{what} ({denial['api']}, {denial['times']} times since {denial['since']})"


def _producer(found: dict[str, Any]) -> str:
    producer = found["producer"]
    return f"{producer['principal']}, produce to {found['topic']} ({producer['times']} times since {producer['since']})"


def _named(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items() if value is not None)


def change_log_level(
    level: Annotated[str | None, typer.Argument(help="debug, info, warning, error or default; none: show it.")] = None,
    logger: Annotated[str, typer.Option(help="A logger, as log lines name it.")] = "root",
    for_: Annotated[str, typer.Option("--for", help="For how long, up to 24h.")] = "10m",
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the log level of a running sidecar."""
    if level is None:
        found = ask(AdminPort(admin, token_file, ca), "/log-level")
    else:
        found = ask(
            AdminPort(admin, token_file, ca),
            "/log-level?" + urlencode({"level": level, "logger": logger, "for": for_}),
            "PUT",
        )
    if as_json or "loggers" not in found:
        typer.echo(json.dumps(found, indent=2))
        return
    say(f"root: {found['level']}")
    for name, one in found["loggers"].items():
        say(f"{name}: {one['level']} until {one['until']}, then {one['then']}")


def show_topics(
    topic: Annotated[str | None, typer.Argument(help="A topic; none: all that are known.")] = None,
    admin: AdminUrl = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Print what applies to topics in a running sidecar."""
    found = ask(AdminPort(admin, token_file, ca), "/topics" if topic is None else f"/topics/{quote(topic, safe='')}")
    if as_json or "workers" in found:
        typer.echo(json.dumps(found, indent=2))
        return
    for one in found["topics"] if topic is None else [found]:
        say(*_topic_lines(one))


def _topic_lines(topic: dict[str, Any]) -> Iterator[str]:
    yield f"{topic['topic']}: {_policy(topic['validation'])}"
    for number, policy in enumerate(topic["validation"].get("policies", ()), 1):
        argument = f" with {policy['argument']!r}" if policy["argument"] else ""
        about = f"reads {policy['reads']}; fails {policy['on_error']}"
        yield f"  policy {number}. {policy['name']}{argument}: {policy['class']}; {about}{_settings(policy)}"
    for number, one in enumerate(topic["interceptors"], 1):
        if isinstance(one, str):
            yield f"  interceptor {number}. {one}"
        else:
            hooks = ", ".join(one["hooks"]) or "no hooks"
            disabled = "; disabled for now" if one["disabled"] else ""
            source = f"from {one['source']}"
            yield f"  interceptor {number}. {one['name']}: {one['class']} ({source}); {hooks}{disabled}{_settings(one)}"
    for one in topic.get("producers", ()):
        yield f"  {_required(one)}"


def _required(producers: dict[str, Any]) -> str:
    """What is required of producers."""
    wanted = ", ".join(f"{name} {_shown(value)}" for name, value in producers["required"].items())
    share = f" for {producers['percent']} % of the batches" if producers["percent"] < 100 else ""
    whose = f" of {', '.join(producers['principals'])}" if producers["principals"] else ""
    nothing = "not looked at" if producers["mode"] == "off" else "only listed"
    return f"producers{whose}: {wanted or nothing} (from {producers['source']}, mode {producers['mode']}{share})"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return " or ".join(value) if isinstance(value, list) else str(value)


def _policy(validation: dict[str, Any]) -> str:
    if "why" in validation:
        return f"not validated: {validation['why']}"
    share = f" for {validation['percent']} % of the batches" if validation.get("percent", 100) < 100 else ""
    place = f"from {validation['source']}, mode {validation['mode']}{share}, hash {validation['hash']}"
    return f"{validation['record.validation.policy']} ({place})"


def _settings(one: dict[str, Any]) -> str:
    return f"; settings {json.dumps(one['settings'])}" if one["settings"] else ""
