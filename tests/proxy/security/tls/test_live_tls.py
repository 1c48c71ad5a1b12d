"""Files of TLS that are replaced while the sidecar runs: as a mounted Secret is, one by one, and by broken ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.certificates import Issued, authority

from kafka_sidecar.proxy.config.tls import ClientTls
from kafka_sidecar.proxy.security.tls.contexts import listener_context
from kafka_sidecar.proxy.security.tls.live_tls import LiveTls, families_of_tls

CA = authority()
DAY = 86400


def live(certificate: Path, key: Path) -> LiveTls:
    section = ClientTls.model_validate({"certificate": str(certificate), "key": str(key)})
    return LiveTls("client", lambda: listener_context(section), section.files)


def looks(tls: LiveTls, times: int = 3) -> None:
    for _ in range(times):
        tls.look()


def days_left(tls: LiveTls) -> int:
    return round((tls.loaded.not_after["certificate"] - time.time()) / DAY)


def mounted(folder: Path, issued: Issued, generation: str) -> None:
    """What the kubelet does: a new folder, and a symbolic link to it that replaces the last one."""
    (folder / generation).mkdir()
    issued.write(folder / generation, "tls")
    link = folder / f"link-{generation}"
    link.symlink_to(generation)
    link.rename(folder / "data")


def test_a_secret_that_is_mounted_again_is_used_from_then_on(tmp_path: Path) -> None:
    mounted(tmp_path, CA.issue("sidecar", days=1), "1")
    tls = live(tmp_path / "data/tls.crt", tmp_path / "data/tls.key")
    before = tls.context
    looks(tls)
    assert tls.context is before
    mounted(tmp_path, CA.issue("sidecar", days=9), "2")
    looks(tls)
    assert tls.context is not before
    assert days_left(tls) == 9


def test_files_that_are_replaced_one_by_one_are_read_once_both_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chain, key = CA.issue("sidecar", days=1).write(tmp_path, "tls")
    tls, renewed = live(chain, key), CA.issue("sidecar", days=9)
    key.write_text(renewed.key_pem())
    tls.look()
    chain.write_text(renewed.pem)
    looks(tls)
    assert days_left(tls) == 9
    assert [one.levelno for one in caplog.records if one.levelno > logging.INFO] == []


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_text("nonsense"), lambda path: path.write_bytes(b"\0" * 99)]
)
def test_a_broken_file_leaves_the_last_one_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    chain, key = CA.issue("sidecar", days=1).write(tmp_path, "tls")
    tls = live(chain, key)
    before = tls.context
    damage(chain)
    looks(tls)
    assert tls.context is before
    assert not tls.stats.is_current
    (line,) = (one for one in caplog.records if one.levelno == logging.ERROR)
    detail = vars(line)["detail"]
    assert detail.startswith("clients.tls.certificate: ")
    CA.issue("sidecar", days=9).write(tmp_path, "tls")
    looks(tls)
    assert tls.stats.is_current
    assert days_left(tls) == 9


def test_a_file_that_is_absent_for_a_moment_is_not_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chain, key = CA.issue("sidecar", days=1).write(tmp_path, "tls")
    tls = live(chain, key)
    chain.unlink()
    looks(tls)
    assert tls.stats.is_current
    assert caplog.records == []


def test_the_seconds_to_the_end_of_each_file_are_a_metric(tmp_path: Path) -> None:
    tls = live(*CA.issue("sidecar", days=2).write(tmp_path, "tls"))
    tls.stats.succeeded(0.002)
    tls.stats.failures["not_tls"] += 1
    found = {family.name: family.samples for family in families_of_tls([tls], time.time())}
    assert found["tls_certificate_expiry_seconds"] == {("client", "certificate"): pytest.approx(2 * DAY, abs=60)}
    assert found["tls_handshakes"] == {("client",): 1}
    assert found["tls_handshake_failures"] == {("client", "not_tls"): 1}
    assert found["tls_last_reload_successful"] == {("client",): 1}
