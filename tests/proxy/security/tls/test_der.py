"""The end of a certificate's validity, as cryptography sees it."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from harness.certificates import authority
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.security.tls.der import element, name_of, not_after, subject_of

CERTIFICATE = authority().issue("app", days=3).certificate.public_bytes(Encoding.DER)
# DER of a name, and Java's text of it.
NAMES = {
    "every keyword": (
        "MGExCzAJBgNVBAYTAlNFMQ8wDQYDVQQIDAZTa8OlbmUxDTALBgNVBAcMBEx1bmQxEzARBgNVBAoMCkFjbWUsIEluYy4xDDAKBgNVBAsMA2ErYjEPMA0GA1UEAwwGb3JkZXJz",
        "CN=orders,OU=a\\+b,O=Acme\\, Inc.,L=Lund,ST=Skåne,C=SE",
    ),
    "special characters": (
        "MBsxGTAXBgNVBAMMECBsZWFkImluZyM9PD47XCA=",
        'CN=\\ lead\\"ing\\#\\=\\<\\>\\;\\\\\\ ',
    ),
    "a hash": (
        "MBAxDjAMBgNVBAMMBSNoYXNo",
        "CN=\\#hash",
    ),
    "inner spaces": (
        "MA8xDTALBgNVBAMMBGEgIGI=",
        "CN=a  b",
    ),
    "e-mail": (
        "MDExHjAcBgkqhkiG9w0BCQEWD29wc0BleGFtcGxlLmNvbTEPMA0GA1UEAwwGb3JkZXJz",
        "CN=orders,1.2.840.113549.1.9.1=#160f6f7073406578616d706c652e636f6d",
    ),
    "serial number": (
        "MCAxDTALBgNVBAUTBDQ3MTExDzANBgNVBAMMBm9yZGVycw==",
        "CN=orders,2.5.4.5=#130434373131",
    ),
    "other kinds": (
        "MEExCzAJBgNVBAwMAkRyMQwwCgYDVQQqDANBbm4xDDAKBgNVBAQMA0xlZTEKMAgGA1UELhMBcTEKMAgGA1UEQQwBcA==",
        "2.5.4.65=#0c0170,2.5.4.46=#130171,2.5.4.4=#0c034c6565,2.5.4.42=#0c03416e6e,2.5.4.12=#0c024472",
    ),
    "domain components": (
        "MFMxEzARBgoJkiaJk/IsZAEZFgNjb20xFzAVBgoJkiaJk/IsZAEZFgdleGFtcGxlMRIwEAYKCZImiZPyLGQBAQwCdTExDzANBgNVBAkMBk1haW4gMQ==",
        "STREET=Main 1,UID=u1,DC=example,DC=com",
    ),
    "a part of two": (
        "MCkxGDAKBgNVBAMMA29uZTAKBgNVBAsMA3R3bzENMAsGA1UECgwEQWNtZQ==",
        "O=Acme,CN=one+OU=two",
    ),
    "an unknown kind": (
        "MB8xDDAKBgUqAwQFBgwBeDEPMA0GA1UEAwwGb3JkZXJz",
        "CN=orders,1.2.3.4.5.6=#0c0178",
    ),
    "Unicode": (
        "MBwxGjAYBgNVBAMMEULDvGNoZXItzqkg5pel5pys",
        "CN=Bücher-Ω 日本",
    ),
    "BMPString": (
        "MA0xCzAJBgNVBAMeAgOp",
        "CN=\x03�",
    ),
    "UniversalString": (
        "MB8xHTAbBgNVBAMcFAAAAEwAAABhAAAAdAAAAGkAAABu",
        "CN=#1c140000004c0000006100000074000000690000006e",
    ),
    "control characters": (
        "MBcxFTATBgNVBAMMDHRhYgloZXJlCm5ldw==",
        "CN=tab\there\nnew",
    ),
    "NUL": (
        "MBMxETAPBgNVBAMMCGFwcABwcm9k",
        "CN=app\\00prod",
    ),
    "empty": (
        "MAA=",
        "",
    ),
}


@pytest.mark.parametrize("days", [-10, 0.5, 30, 366 * 40])  # the last one is after 2049: another type of time
def test_the_end_of_validity_is_that_of_the_library(days: float) -> None:
    issued = authority().issue("app", days=days).certificate
    assert not_after(issued.public_bytes(Encoding.DER)) == issued.not_valid_after_utc.timestamp()


@given(st.binary(max_size=300) | st.integers(0, len(CERTIFICATE) - 1).map(lambda end: CERTIFICATE[:end]))
def test_other_bytes_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        not_after(data)


def der(*contents: bytes, tag: int = 0x30) -> bytes:
    data = b"".join(contents)
    return bytes((tag, len(data))) + data


@pytest.mark.parametrize(
    "validity",
    [der(), der(b"\x17\x00"), der(b"\x17\x00", b"\x04\x00"), der(b"\x17\x00", b"\x17\x01x"), der(tag=0x31)],
    ids=["no times", "one time", "another kind", "no date", "no sequence"],
)
def test_a_certificate_without_a_date_is_none(validity: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an X\.509|does not match"):
        not_after(der(der(der(), der(), der(), validity, der(), der())))


@pytest.mark.parametrize("kind", NAMES)
def test_a_name_is_written_as_java_writes_it(kind: str) -> None:
    encoded, expected = NAMES[kind]
    data = base64.b64decode(encoded)
    assert name_of(data, element(data, 0)) == expected


def certificate_of(name: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return authority().issue(name).certificate.public_bytes(Encoding.DER)


def test_the_subject_of_a_certificate_is_read() -> None:
    assert subject_of(certificate_of("orders, eu")) == "CN=orders\\, eu"
    assert subject_of(None) is None


@given(st.binary(max_size=200))
def test_hostile_certificates_raise_nothing_else(data: bytes) -> None:
    try:
        subject_of(data)
    except ValueError:
        return


@given(st.integers(min_value=0, max_value=600), st.integers(min_value=0, max_value=255))
def test_damaged_certificates_raise_nothing_else(at: int, byte: int) -> None:
    damaged = bytearray(OF_ORDERS)
    damaged[at % len(damaged)] = byte
    test_hostile_certificates_raise_nothing_else.hypothesis.inner_test(bytes(damaged))  # type: ignore[attr-defined]


OF_ORDERS = certificate_of("orders")


@pytest.mark.parametrize(
    "name",
    [
        "3000",  # no parts: an empty name, which is none
        "300831063004060155",  # an attribute without a value
        "300c310a300806005302410041",  # an empty object identifier
        "3005310330010",
    ],
)
def test_a_damaged_name_raises_nothing_else(name: str) -> None:
    data = bytes.fromhex(name if len(name) % 2 == 0 else name[:-1])
    try:
        assert name_of(data, element(data, 0)) == ""
    except ValueError:
        return


@pytest.mark.parametrize("kind", [der(tag=0x06), der(b"\x55", tag=0x04)], ids=["no number", "no identifier"])
def test_an_attribute_without_a_kind_is_none(kind: bytes) -> None:
    data = der(der(der(kind, der(b"a", tag=0x0C)), tag=0x31))
    with pytest.raises(ValueError, match=r"not an X\.509"):
        name_of(data, element(data, 0))
