"""``kafka-sidecar scram-user`` prints lines that a sidecar reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import CliRunner

from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.security.sasl.users import knows, read_users


def test_the_lines_are_of_the_password_that_was_read(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["scram-user", "alice"], input="hush hush\n")
    assert done.exit_code == 0
    assert "hush" not in done.stdout
    (tmp_path / "users").write_text(done.stdout)
    users = read_users(tmp_path / "users")
    assert sorted(users) == [("SCRAM-SHA-256", "alice"), ("SCRAM-SHA-512", "alice")]
    assert all(knows(verifier, mechanism, "hush hush") for (mechanism, _), verifier in users.items())


@pytest.mark.parametrize(
    ("name", "password", "problem"),
    [("a b", "x", "NAME: 'a b' has a space"), ("a=b", "x", "NAME: 'a=b'"), ("alice", "", "standard input: has no")],
)
def test_a_name_or_password_that_cannot_be_used_is_one_line(name: str, password: str, problem: str) -> None:
    done = CliRunner().invoke(app, ["scram-user", name], input=f"{password}\n")
    assert (done.exit_code, problem in done.stderr) == (2, True)
