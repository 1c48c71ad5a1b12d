"""The jars of Spark's Kafka connector: found, verified, fetched, or a message that says how."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from kafka_sidecar.pipeline.jars import POM, JarError, default_folder, expected_jars, fetch_jars, find_jars


def test_the_jars_are_those_of_the_pom() -> None:
    pom = ElementTree.parse(POM)
    values: dict[str | None, str | None] = {f"${{{one.tag}}}": one.text for one in pom.iterfind("properties/*")}
    named = set()
    for dependency in pom.iter("dependency"):
        name, version = dependency.findtext("artifactId"), dependency.findtext("version")
        named.add(f"{name}-{values.get(version, version)}.jar")
    assert named == set(expected_jars())


def test_no_jar_brings_others() -> None:
    text = POM.read_text()
    assert text.count("<exclusion>") == text.count("<dependency>")
    assert text.count("<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>") == len(expected_jars())


def test_fetched_jars_are_found() -> None:
    assert [jar.name for jar in find_jars(fetch_jars())] == list(expected_jars())


def test_the_default_folder_is_in_the_cache_of_the_user() -> None:
    assert default_folder({"HOME": "/home/me"}) == Path("/home/me/.cache/kafka-sidecar/spark-jars")
    assert default_folder({"HOME": "/home/me", "XDG_CACHE_HOME": "/big"}) == Path("/big/kafka-sidecar/spark-jars")


def test_a_missing_jar_is_named_with_folder_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(JarError, match=rf"pipeline.jars: {tmp_path} has no commons-pool2-.*; `kafka-sidecar pipeline"):
        find_jars(tmp_path)


def test_a_changed_jar_is_rejected(tmp_path: Path) -> None:
    for jar in find_jars(None):
        (tmp_path / jar.name).symlink_to(jar)
    assert len(find_jars(tmp_path)) == 5
    victim = tmp_path / next(iter(expected_jars()))
    victim.unlink()
    victim.write_bytes(b"something else")
    with pytest.raises(JarError, match=f"{victim} is not the jar with SHA-256 .*; delete it"):
        find_jars(tmp_path)


def test_without_maven_the_files_to_copy_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JarError, match=f"install Maven, or copy these files to {tmp_path}: commons-pool2"):
        fetch_jars(tmp_path)


def test_a_failure_of_maven_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text("#!/bin/sh\nexit 3\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:/bin:/usr/bin")
    with pytest.raises(JarError, match="Maven failed with exit code 3: no message"):
        fetch_jars(tmp_path / "jars")
