"""A password that was right before is right at once, until the user has other keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_sidecar.proxy.security.sasl import verification
from kafka_sidecar.proxy.security.sasl.users import create_verifier, knows
from kafka_sidecar.proxy.security.sasl.verification import KnownPasswords, RejectedError, is_known, plain

MECHANISM = "SCRAM-SHA-256"
VERIFIER = create_verifier(MECHANISM, "hush")
USERS = {(MECHANISM, "alice"): VERIFIER, (MECHANISM, "bob"): create_verifier(MECHANISM, "other")}


def log_in(token: bytes, known: KnownPasswords) -> bool:
    steps = plain(USERS, known)
    next(steps)
    try:
        steps.send(token)
    except StopIteration:
        return True
    except RejectedError:
        return False
    raise AssertionError


def test_a_password_is_computed_with_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known, computed = KnownPasswords(), list[str]()
    monkeypatch.setattr(
        verification,
        "knows",
        lambda *more: computed.append(more[2]) or knows(*more),  # type: ignore[func-returns-value]
    )
    assert not is_known(b"\0alice\0hush", USERS, known)
    assert [log_in(b"\0alice\0hush", known) for _ in range(3)] == [True] * 3
    assert is_known(b"\0alice\0hush", USERS, known)
    assert computed == ["hush"]


@pytest.mark.parametrize(
    "token", [b"\0alice\0wrong", b"\0bob\0hush", b"\0unknown\0hush", b"bob\0alice\0hush", b"", b"\xff\0a\0b"]
)
def test_no_other_password_is_right_for_that(token: bytes) -> None:
    known = KnownPasswords()
    assert log_in(b"\0alice\0hush", known)
    assert not log_in(token, known)
    assert is_known(token, USERS, known) == token.endswith(b"alice\0hush")


def test_a_user_with_other_keys_has_another_password() -> None:
    known = KnownPasswords()
    known.add("alice", VERIFIER, "hush")
    assert known.has("alice", VERIFIER, "hush")
    assert not known.has("alice", create_verifier(MECHANISM, "hush"), "hush")
    assert not known.has("alice", replace(VERIFIER, stored_key=b"x"), "hush")
    assert b"hush" not in b"".join(known._known.values())
