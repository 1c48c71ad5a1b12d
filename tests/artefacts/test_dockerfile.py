"""What can be said of the image without building it, and the reader of Dockerfiles that the tests play it with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from artefacts.dockerfile import ROOT, Step, copy_context, expand, read_stages

STAGES = read_stages(ROOT / "Dockerfile", {})
LAST = STAGES[-1]


def test_the_base_is_pinned_by_digest_and_the_same_for_all_stages() -> None:
    assert {stage.base for stage in STAGES} == {STAGES[0].base}
    assert re.fullmatch(r"docker\.io/library/python:3\.13\.\d+-slim-\w+@sha256:[0-9a-f]{64}", STAGES[0].base)


def test_another_base_can_be_given() -> None:
    assert {stage.base for stage in read_stages(ROOT / "Dockerfile", {"BASE": "mine"})} == {"mine"}


def test_the_user_is_a_number_that_kubernetes_knows_is_not_root() -> None:
    assert LAST.last("USER").text == "10001:10001"


@pytest.mark.parametrize(("word", "words"), [("ENTRYPOINT", ["kafka-sidecar"]), ("CMD", ["run"])])
def test_what_it_runs_needs_no_shell(word: str, words: list[str]) -> None:
    assert LAST.last(word).exec_form() == words


def test_every_label_is_one_of_the_image_specification() -> None:
    labels = dict(word.split("=", 1) for word in LAST.last("LABEL").words({"VERSION": "1.2.3"}))
    assert {label.removeprefix("org.opencontainers.image.") for label in labels} == {
        "title", "description", "licenses", "source", "version", "revision", "created",
    }  # fmt: skip
    assert labels["org.opencontainers.image.version"] == "1.2.3"


def test_everything_that_is_installed_has_a_hash_or_was_built_here() -> None:
    installs = [part for step in STAGES[0].steps for part in step.text.split("&&") if " install " in part]
    assert len(installs) == 4
    for install in installs:
        assert any(mark in install for mark in ("apt-get", "--require-hashes", "--no-index"))


def test_the_lock_of_the_image_has_none_of_the_developers_packages() -> None:
    locked = set(re.findall(r"^([\w-]+)==", (ROOT / "requirements-run.lock").read_text(), re.MULTILINE))
    assert {"aiokafka", "cel-expr-python", "opentelemetry-sdk", "uvloop"} <= locked
    assert not locked & {"confluent-kafka", "cython", "hypothesis", "mypy", "pyspark", "pytest", "ruff", "setuptools"}


def test_the_context_has_what_is_built_and_nothing_else(tmp_path: Path) -> None:
    context = copy_context(tmp_path / "context")
    files = {str(path.relative_to(context)) for path in context.rglob("*")}
    assert {
        "setup.py",
        "pyproject.toml",
        "README.md",
        "requirements-run.lock",
        "codec/scan.py",
        "codec/scan.pxd",
    } <= files
    assert (context / "src/kafka_sidecar/codec").is_symlink()
    assert not {".git", ".venv", ".cache", "tests", "docs", "bench", "build"} & files
    assert not [name for name in files if name.endswith(".so") or "__pycache__" in name]


def test_variables_are_replaced_in_both_spellings() -> None:
    assert expand("${A}/$B:$C", {"A": "1", "B": "2"}) == "1/2:"


def test_a_step_splits_its_words_after_quotes() -> None:
    assert Step("ENV", 'A="b c" D=$E').words({"E": "f"}) == ["A=b c", "D=f"]


def test_the_documentation_lists_the_packages_that_are_locked() -> None:
    listed = re.findall(r"^\| `([\w.-]+)` \| (\S+) \|", (ROOT / "docs/reference/image.md").read_text(), re.MULTILINE)
    locked = re.findall(r"^([\w-]+)==(\S+)", (ROOT / "requirements-run.lock").read_text(), re.MULTILINE)
    versions = {re.sub("[_.]", "-", name.lower()): version for name, version in listed if name != "kafka-sidecar"}
    assert {*versions.items()} == {*locked} - {pair for pair in locked if pair[0] == "colorama"}  # Windows
