"""The file of users: lines as the command prints them, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy.security.sasl.users import UsersError, create_verifier, format_user, knows, read_users

LINE = format_user("alice", "SCRAM-SHA-512", create_verifier("SCRAM-SHA-512", "hush"))


def test_a_line_that_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "users"
    bob = create_verifier("SCRAM-SHA-256", "ssh", iterations=8192)
    path.write_text(f"# people\n{LINE}\n\n{format_user('bob', 'SCRAM-SHA-256', bob)}\n")
    users = read_users(path)
    assert list(users) == [("SCRAM-SHA-512", "alice"), ("SCRAM-SHA-256", "bob")]
    assert users["SCRAM-SHA-256", "bob"] == bob
    assert knows(users["SCRAM-SHA-512", "alice"], "SCRAM-SHA-512", "hush")
    assert not knows(users["SCRAM-SHA-512", "alice"], "SCRAM-SHA-512", "Hush")


def test_neither_a_line_nor_a_value_has_the_password() -> None:
    verifier = create_verifier("SCRAM-SHA-256", "hush")
    assert "hush" not in format_user("alice", "SCRAM-SHA-256", verifier) + repr(verifier)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no users; write lines as"),
        ("alice:hush", "line 1, is no user with its keys"),
        (LINE.replace("SCRAM-SHA-512", "PLAIN"), "line 1, is no user"),
        (LINE.replace("iterations=4096", "iterations=1"), "line 1, is no user"),
        (LINE.replace("salt=", "salt=*"), "line 1, is no user"),
        (f"{LINE}\n{LINE}", "line 2: alice is there twice with SCRAM-SHA-512"),
    ],
)
def test_a_mistake_names_file_and_line_and_quotes_nothing(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(UsersError, match=problem) as error:
        read_users(path)
    assert str(path) in str(error.value)
    assert "hush" not in str(error.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match="cannot be read: No such file"):
        read_users(tmp_path / "none")
