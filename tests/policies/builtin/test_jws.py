"""Signatures of records: those of RFC 7515 and RFC 8037, of every algorithm and form, and what hostile producers send.

tests/integration/validation/test_signatures.py compares with jose4j, which Kafka's own clients use.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jws import SigningKey, b64, key_set

from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch
from kafka_sidecar.policies.builtin import jws
from kafka_sidecar.policies.builtin.jws import ALGORITHMS, Jws
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import RecordValidationPolicy, TopicMetadata, UnavailableError, Unresolved

Refusals = Callable[..., list[tuple[int, str, str]]]
NAME = "kroxylicious.io/jws"
VALUE = b'{"order": 17}'
FORMS = ("attached", "detached", "plain")
KEYS: dict[str, SigningKey] = {algorithm: SigningKey(algorithm, algorithm) for algorithm in ALGORITHMS}
KEY = KEYS["ES256"]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "keys.json"
    path.write_text(key_set(*KEYS.values()))
    return {"jwks_file": str(path)}


def signed(jws: bytes | None, value: bytes | None = VALUE, name: str = NAME) -> dict[str, Any]:
    return {"value": value, "headers": [(name, jws)]}


def reasons(found: list[tuple[int, str, str]]) -> list[tuple[int, str]]:
    return [(index, reason) for index, reason, _ in found]


ENCODED = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
CLAIMS = b'{"iss":"joe",\r\n "exp":1300819380,\r\n "http://example.com/is_root":true}'
# RFC 7515 A.2, A.3, A.4; RFC 8037 A.4.
VECTORS: dict[str, tuple[dict[str, str], str, bytes]] = {
    "RS256": (
        {
            "kty": "RSA", "e": "AQAB",
            "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT"
            "-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo"
            "7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs9"
            "1kzk2PAcDTW9gb54h4FRWyuXpoQ",
        },
        (f"eyJhbGciOiJSUzI1NiJ9.{ENCODED}.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc"
        "_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07"
        "Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98r"
        "qVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"),
        CLAIMS,
    ),
    "ES256": (
        {
            "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        },
        (f"eyJhbGciOiJFUzI1NiJ9.{ENCODED}.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3"
        "-Kg6NU1Q"),
        CLAIMS,
    ),
    "ES512": (
        {
            "kty": "EC", "crv": "P-521",
            "x": "AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk",
            "y": "ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2",
        },
        ("eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA.AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34"
        "XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn"),
        b"Payload",
    ),
    "EdDSA": (
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        ("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4"
        "ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"),
        b"Example of Ed25519 signing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("algorithm", VECTORS)
def test_the_examples_of_the_rfcs_are_right_also_without_their_payload(
    refusals: Refusals, tmp_path: Path, algorithm: str
) -> None:
    key, attached, value = VECTORS[algorithm]
    (tmp_path / "keys").write_text(json.dumps({"keys": [key]}))
    first, _, last = attached.split(".")
    records = [signed(attached.encode(), value), signed(f"{first}..{last}".encode(), value)]  # RFC 7515 appendix F
    own = {"jwks_file": str(tmp_path / "keys")}
    assert refusals("jws", own, *records) == []
    assert reasons(refusals("jws", own, *(signed(one["headers"][0][1], value + b" ") for one in records))) == [
        (0, "other_payload"), (1, "wrong_signature"),
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_in_every_form(refusals: Refusals, settings: dict[str, Any], algorithm: str, form: str) -> None:
    key = KEYS[algorithm]
    good, other = key.sign(VALUE, form), key.sign(b"another value", form)
    found = refusals("jws", settings, signed(good), signed(other), signed(key.sign(b"", form), None))
    assert reasons(found) == [(1, "other_payload" if form == "attached" else "wrong_signature")]


def test_a_plain_payload_may_be_in_the_jws_too(refusals: Refusals, settings: dict[str, Any]) -> None:
    """RFC 7797 section 5.2."""
    first, _, last = KEY.sign(b"$", "plain").split(b".")
    assert refusals("jws", settings, signed(b"%s.$.%s" % (first, last), b"$")) == []


def test_a_record_without_a_signature_is_rejected_if_one_is_required(
    refusals: Refusals, settings: dict[str, Any]
) -> None:
    records = [signed(None), {"value": VALUE}, {"value": None}, signed(KEY.sign(VALUE), name="other")]
    found = refusals("jws", settings, *records)
    assert reasons(found) == [(index, "no_signature") for index in range(4)]
    assert found[0][2] == f"Topic orders requires records to have a signature (JWS) in the header {NAME}"
    assert reasons(refusals("jws", {**settings, "allow_null": True}, *records)) == [
        (0, "no_signature"), (1, "no_signature"), (3, "no_signature"),
    ]  # fmt: skip
    optional = {**settings, "required": False}
    assert refusals("jws", optional, *records) == []
    assert reasons(refusals("jws", optional, signed(b"x"))) == [(0, "malformed")]


def test_of_several_headers_the_last_one_counts(refusals: Refusals, settings: dict[str, Any]) -> None:
    good, bad = (NAME, KEY.sign(VALUE)), (NAME, KEY.sign(b"other"))
    records = [{"value": VALUE, "headers": headers} for headers in ([bad] * 1000 + [good], [good, bad])]
    assert reasons(refusals("jws", settings, *records)) == [(1, "wrong_signature")]


@pytest.mark.parametrize(
    ("content", "form", "reason"),
    [
        ("detached", "attached", "wrong_form"),
        ("attached", "detached", "wrong_form"),
        ("attached", "plain", "wrong_form"),
    ],
)
def test_one_form_can_be_required(
    refusals: Refusals, settings: dict[str, Any], content: str, form: str, reason: str
) -> None:
    found = refusals("jws", {**settings, "content": content}, signed(KEY.sign(VALUE, form)))
    assert reasons(found) == [(0, reason)]


def test_only_the_algorithms_of_the_list_are_accepted(refusals: Refusals, settings: dict[str, Any]) -> None:
    records = [signed(KEYS[name].sign(VALUE)) for name in ("ES256", "RS256", "EdDSA")]
    found = refusals("jws", {**settings, "algorithms": ["EdDSA", "ES256"]}, *records)
    assert found == [
        (
            1,
            "wrong_algorithm",
            f"Topic orders requires the signature in the header {NAME} to be of one of the algorithms EdDSA, ES256",
        )
    ]


def forged(header: Any, signature: bytes = b"x") -> bytes:
    return f"{b64(header if isinstance(header, bytes) else json.dumps(header).encode())}..{b64(signature)}".encode()


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "malformed"),
    "no JWS": (b"hello", "malformed"),
    "two parts": (b"a.b", "malformed"),
    "a header of 1 MB": (b"A" * 1_000_000 + b"..A", "malformed"),
    "a signature of 1 MB": (KEY.sign(VALUE) + b"A" * 1_000_000, "malformed"),
    "a payload of 1 MB": (KEY.sign(VALUE).replace(b"..", b"." + b"A" * 1_000_000 + b"."), "other_payload"),
    "a kid of 32 KB": (KEY.sign(VALUE, kid="k" * 32_768), "malformed"),
    "a kid that is no string": (KEY.sign(VALUE, kid=[1]), "malformed"),
    "a kid that is null": (KEY.sign(VALUE, kid=None), "malformed"),
    "an unknown kid": (KEY.sign(VALUE, kid="other"), "unknown_key"),
    "a kid of another algorithm's key": (KEY.sign(VALUE, kid="RS256"), "unknown_key"),
    "none": (forged({"alg": "none"}, b""), "wrong_algorithm"),
    "None": (forged({"alg": "None"}, b""), "wrong_algorithm"),
    "a shared secret": (forged({"alg": "HS256", "kid": "RS256"}), "wrong_algorithm"),
    "no alg": (forged({"kid": "ES256"}), "malformed"),
    "an alg that is no string": (forged({"alg": ["ES256"]}), "malformed"),
    "no JSON": (forged(b"{"), "malformed"),
    "not UTF-8": (forged(b'{"alg": "ES256\xff"}'), "malformed"),
    "no object": (forged(b'["alg"]'), "malformed"),
    "NaN": (forged(b'{"alg": "ES256", "x": NaN}'), "malformed"),
    "an endless number": (forged(b'{"alg": "ES256", "x": 1' + b"0" * 5000 + b"}"), "malformed"),
    "deep nesting": (forged(b'{"alg": "ES256", "x": ' + b"[" * 5900), "malformed"),
    "a name twice": (KEY.sign_header(b'{"alg": "none", "alg": "ES256"}', VALUE), "malformed"),
    "crit unknown": (KEY.sign(VALUE, crit=["exp"], exp=1), "critical_extension"),
    "crit of what is not there": (KEY.sign(VALUE, crit=["exp"]), "malformed"),
    "crit empty": (KEY.sign(VALUE, crit=[]), "malformed"),
    "crit twice": (KEY.sign(VALUE, "plain", crit=["b64", "b64"]), "malformed"),
    "crit no list": (KEY.sign(VALUE, crit="b64", b64=True), "malformed"),
    "b64 without crit": (KEY.sign(VALUE, b64=False), "malformed"),
    "b64 no boolean": (KEY.sign(VALUE, b64=0, crit=["b64"]), "malformed"),
    "padding": (KEY.sign(VALUE) + b"=", "malformed"),
    "standard base64": (KEY.sign(VALUE)[:-2] + b"+/", "malformed"),
    "a line break": (KEY.sign(VALUE) + b"\n", "malformed"),
    "a short signature": (forged({"alg": "ES256", "kid": "ES256"}, b"x" * 63), "wrong_signature"),
    "a long signature": (forged({"alg": "ES256", "kid": "ES256"}, b"x" * 65), "wrong_signature"),
    "a signature of zeros": (forged({"alg": "ES256", "kid": "ES256"}, bytes(64)), "wrong_signature"),
    "an empty signature": (forged({"alg": "ES256", "kid": "ES256"}, b""), "wrong_signature"),
    "a DER signature": (forged({"alg": "ES256", "kid": "ES256"}, bytes.fromhex("3006020101020101")), "wrong_signature"),
    "its own key": (SigningKey("ES256").sign(VALUE, jwk=SigningKey("ES256").jwk), "wrong_signature"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_a_right_signature_is_rejected_without_a_quote(
    refusals: Refusals, settings: dict[str, Any], name: str
) -> None:
    jws, reason = HOSTILE[name]
    ((_, found, message),) = refusals("jws", settings, signed(jws))
    assert found == reason
    assert len(message) < 300
    assert not any(part in message for part in ("other", "17", "kkkk", b64(VALUE)[:6]))


def test_a_signature_without_a_key_id_is_tried_with_a_few_keys(refusals: Refusals, tmp_path: Path) -> None:
    keys = [SigningKey(None) for _ in range(jws.MAX_KEYS + 1)]
    (tmp_path / "keys").write_text(key_set(*keys))
    found = refusals("jws", {"jwks_file": str(tmp_path / "keys")}, *(signed(key.sign(VALUE)) for key in keys))
    assert reasons(found) == [(jws.MAX_KEYS, "wrong_signature")]


@given(st.binary(max_size=300) | st.builds(b".".join, st.lists(st.binary(max_size=60), min_size=3, max_size=3)))
def test_any_other_bytes_are_malformed(data: bytes) -> None:
    with pytest.raises(jws._WrongError, match="malformed"):
        jws.jose_header(jws._split(data)[0])


def test_a_batch_of_hostile_headers_does_not_take_long(settings: dict[str, Any]) -> None:
    """A thousand headers of 1 KB before a signature of a megabyte, in every record."""
    headers = [Header("h", b"x" * 1024)] * 1000 + [Header(NAME, b"A" * 1_000_000 + b"..A")]
    (batch,) = batches(build_batch([NewRecord(VALUE, headers=headers)] * 8))
    plan = PolicyCatalog({"it": PolicySettings("jws", settings=settings)}).plan("it")
    began = time.perf_counter()
    assert len(plan.validate(TopicMetadata("orders", 0, bytes(16), ""), batch, 100 << 20)) == 8
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"jwks_file": None}, "needs keys: set jwks_file or jwks_endpoint, one of them"),
        ({"jwks_endpoint": "http://idp/keys"}, "needs keys: set jwks_file or jwks_endpoint, one of them"),
        ({"jwks_file": "missing"}, "missing cannot be read"),
        ({"jwks_file": None, "jwks_endpoint": "idp"}, "jwks_endpoint"),
        ({"jwks_ca": "ca.pem"}, "jwks_ca has no effect"),
        ({"jwks_file": None, "jwks_endpoint": "https://idp/keys", "jwks_ca": "missing"}, "jwks_ca: .*missing"),
        ({"algorithms": ["none"]}, "algorithms"),
        ({"algorithms": ["HS256"]}, "algorithms"),
        ({"algorithms": []}, "algorithms"),
        ({"header": ""}, "header"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], changed: dict[str, Any], message: str) -> None:
    given_settings = {key: value for key, value in {**settings, **changed}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        PolicyCatalog({"it": PolicySettings("jws", settings=given_settings)})


def test_a_file_without_a_key_for_the_algorithms_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(key_set(KEYS["RS256"]))
    settings = {"jwks_file": str(tmp_path / "keys"), "algorithms": ["ES256"]}
    with pytest.raises(ValueError, match="has no key for ES256"):
        PolicyCatalog({"it": PolicySettings("jws", settings=settings)})


def test_an_argument_is_rejected(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="takes no argument"):
        PolicyCatalog({"it": PolicySettings("jws", settings=settings)}).plan("it:a")


class Endpoint:
    """A policy with an endpoint, what is asked of it, and a clock."""

    def __init__(self) -> None:
        self.keys: str | OSError = key_set(KEY)
        self.now = 1000.0
        self.policy = Jws()
        self.policy.configure({"jwks_endpoint": "http://idp/keys"})
        endpoint = self.endpoint
        endpoint._fetch, endpoint._now = self.fetch, lambda: self.now

    @property
    def endpoint(self) -> Any:
        return self.policy._keys.endpoint  # type: ignore[attr-defined]

    def fetch(self, url: str) -> bytes:
        if isinstance(self.keys, OSError):
            raise self.keys
        return self.keys.encode()

    async def check(self, jws: bytes) -> str | None:
        """The reason for which a record is rejected; it is asked again as the sidecar does. Raises UnavailableError."""
        seen = set[object]()
        (batch,) = batches(build_batch([NewRecord(VALUE, headers=[Header(NAME, jws)])]))
        while True:
            try:
                faults = list(self.policy.validate_batch(TopicMetadata("orders", 0, bytes(16), ""), batch.records()))
            except Unresolved as error:
                if error.key in seen:
                    raise AssertionError("it would be asked for ever") from error
                seen.add(error.key)
                await self.policy.resolve(error.key)
            else:
                return faults[0].reason if faults else None


async def test_keys_are_requested_by_the_first_record_and_again_when_they_are_old() -> None:
    endpoint = Endpoint()
    for _ in range(3):
        assert await endpoint.check(KEY.sign(VALUE)) is None
    assert endpoint.endpoint.requests == 1
    endpoint.now += 3600
    for _ in range(3):
        assert await endpoint.check(KEY.sign(VALUE)) is None
    assert endpoint.endpoint.requests == 2


async def test_while_the_endpoint_fails_known_keys_stay_and_what_needs_others_is_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint, new = Endpoint(), SigningKey("new")
    endpoint.keys = OSError("refused")
    with pytest.raises(UnavailableError, match="the keys are not known: refused"):
        await endpoint.check(KEY.sign(VALUE))
    endpoint.keys, endpoint.now = key_set(KEY), endpoint.now + 1
    assert await endpoint.check(KEY.sign(VALUE)) is None
    endpoint.keys, endpoint.now = OSError("refused"), endpoint.now + 3600
    assert await endpoint.check(KEY.sign(VALUE)) is None
    with pytest.raises(UnavailableError, match="the key of a signature is not known"):
        await endpoint.check(new.sign(VALUE))
    endpoint.keys, endpoint.now = key_set(KEY, new), endpoint.now + jws.PAUSE_S
    assert await endpoint.check(new.sign(VALUE)) is None
    assert caplog.text.count("signature keys not refreshed") == 2


async def test_unknown_keys_cost_one_request_in_ten_seconds_however_many_there_are() -> None:
    endpoint = Endpoint()
    assert await endpoint.check(KEY.sign(VALUE)) is None
    answers = set[str | None]()
    for number in range(200):
        endpoint.now += 0.5
        try:
            answers.add(await endpoint.check(KEY.sign(VALUE, kid=f"random {number}")))
        except UnavailableError:
            answers.add("again")
    assert answers == {"unknown_key", "again"}
    assert endpoint.endpoint.requests <= 1 + 100 / jws.PAUSE_S + 1
    assert await endpoint.check(KEY.sign(VALUE)) is None


async def test_a_key_that_is_published_while_others_ask_for_unknown_ones_is_never_rejected() -> None:
    endpoint, new = Endpoint(), SigningKey("new")
    assert await endpoint.check(KEY.sign(VALUE, kid="random")) == "unknown_key"
    endpoint.keys, endpoint.now = key_set(KEY, new), endpoint.now + jws.YOUNG_S + 0.1
    with pytest.raises(UnavailableError):
        await endpoint.check(new.sign(VALUE))
    endpoint.now += jws.PAUSE_S
    assert await endpoint.check(new.sign(VALUE)) is None


async def test_records_at_the_same_time_ask_once() -> None:
    endpoint = Endpoint()
    assert set(await asyncio.gather(*(endpoint.check(KEY.sign(VALUE)) for _ in range(20)))) == {None}
    assert endpoint.endpoint.requests == 1


def test_without_the_library_the_remedy_is_named(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jws, "jwks", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[jwt\]'"):
        Jws().configure(settings)


def test_the_file_with_the_keys_is_one_whose_change_is_a_reload(settings: dict[str, Any]) -> None:
    policy: RecordValidationPolicy = Jws()
    policy.configure(settings)
    assert list(policy.files()) == [Path(settings["jwks_file"])]
