"""The documentation's examples work, and nothing in it points nowhere."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.commands import CliRunner, commands_of
from support.pages import PACKAGES, ROOT, Block, Page, all_pages, defined_names, modules, page, settings

from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ENV_PREFIX
from kafka_sidecar.proxy.features.compose import FEATURES
from kafka_sidecar.proxy.telemetry.logs import KEYS

PAGES = all_pages()
KEYS_OF_EVERY_LINE = {"timestamp", "level", "logger", "message", "traceback"}
NUMBERS = {6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}
NO_CONFIGURATION = {"kubernetes", "prometheus", "values"}  # marks of YAML blocks that other programs read


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(words, command) of all that can be typed."""
    if hasattr(command, "commands"):
        for word, part in command.commands.items():
            yield from commands(part, f"{name} {word}")
    else:
        yield name, command


def test_every_command_has_its_heading_and_every_flag_its_row() -> None:
    reference = page("docs/reference/command-line.md")
    known = dict(commands(commands_of(app), "kafka-sidecar"))
    assert sorted(reference.titles(2)) == sorted(known)
    for name, command in known.items():
        flags = {flag for option in command.params if option.param_type_name == "option" for flag in option.opts}
        assert flags - {"--help"} == set(reference.first_column(name))


@pytest.mark.parametrize("group", [[], ["config"], ["policy"], ["interceptor"], ["pipeline"]], ids=" ".join)
def test_no_help_text_is_cut_in_a_narrow_terminal(group: list[str]) -> None:
    listed = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*group, "--help"]).output.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


def test_the_version_is_a_command_and_an_option() -> None:
    of_command, of_option = (CliRunner().invoke(app, [word]) for word in ("version", "--version"))
    assert of_command.output == of_option.output
    assert of_command.output.startswith("kafka-sidecar ")


def blocks(language: str) -> list[Any]:
    return [
        pytest.param(block, id=f"{a_page.name}-{number}")
        for a_page in PAGES
        for number, block in enumerate(a_page.blocks)
        if block.language == language
    ]


@pytest.mark.parametrize("block", blocks("yaml"))
def test_every_yaml_block_loads(block: Block, tmp_path: Path) -> None:
    if block.mark in NO_CONFIGURATION:
        assert yaml.safe_load(block.text)
    else:
        assert block.mark is None or block.mark.startswith("file ")
        path = tmp_path / "sidecar.yaml"
        path.write_text(block.text)
        load(path, {}, {})


def test_the_configuration_inside_a_manifest_loads(tmp_path: Path) -> None:
    found = [yaml.safe_load(block.text) for block in page("docs/how-to/pipeline-on-kubernetes.md").blocks if block.mark]
    (secret,) = (one for one in found if one["kind"] == "Secret")
    path = tmp_path / "sidecar.yaml"
    path.write_text(secret["stringData"][path.name])
    assert load(path, {}, {}).pipeline.reconcile.path == "/tables"
    assert {one["kind"] for one in found} >= {"CronJob", "Deployment", "PersistentVolumeClaim", "Role", "RoleBinding"}


@pytest.mark.parametrize("block", blocks("json"))
def test_every_json_block_is_a_log_line_with_known_keys(block: Block) -> None:
    assert set(json.loads(block.text)) <= KEYS | KEYS_OF_EVERY_LINE


def dead_links(a_page: Page) -> Iterator[str]:
    for link in a_page.links:
        target, _, anchor = link.target.partition("#")
        path = (a_page.path.parent / target).resolve() if target else a_page.path
        if link.target.startswith("https://"):
            continue
        if not path.exists() or (anchor and anchor not in Page(path).anchors()):
            yield f"{a_page.name}: {link.target}"


def test_every_relative_link_leads_somewhere() -> None:
    assert [dead for a_page in PAGES for dead in dead_links(a_page)] == []


def functions_elsewhere(a_page: Page) -> Iterator[str]:
    for link in a_page.links:
        name = link.text.strip("`").removesuffix("()")
        path = (a_page.path.parent / link.target.partition("#")[0]).resolve()
        is_name = path.suffix == ".py" and link.text.startswith("`") and not name.endswith(".py")
        if is_name and name not in defined_names(path.relative_to(ROOT)):
            yield f"{a_page.name}: {name} is not in {path.name}"


def test_every_function_that_is_named_is_in_the_file_that_is_linked() -> None:
    assert [wrong for a_page in PAGES for wrong in functions_elsewhere(a_page)] == []


def test_every_make_task_that_is_named_exists() -> None:
    tasks = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = re.compile(r"`make ([a-z-]+)`|^make ([a-z-]+)", re.MULTILINE)
    named = {(a_page.name, task) for a_page in PAGES for found in code.findall(a_page.text) for task in found}
    assert {(name, task) for name, task in named if task and task not in tasks} == set()


def test_every_variable_that_is_named_sets_something() -> None:
    variable = re.compile(rf"\b{ENV_PREFIX}([A-Z][A-Z_]*[A-Z])\b")
    named = {(a_page.name, one.lower().replace("__", ".")) for a_page in PAGES for one in variable.findall(a_page.text)}
    known = {*settings(), "section.key", "schema_registries.main.password"}
    assert {(name, setting) for name, setting in named if setting not in known} == set()


def command_lines() -> Iterator[Any]:
    """The commands in shell blocks, without prompts, variables before them, comments and redirections."""
    for a_page in PAGES:
        for block in a_page.blocks:
            lines = [line for line in block.text.splitlines() if block.language == "sh" or line.startswith("$ ")]
            for line in lines if block.language in ("sh", "console") else []:
                words = shlex.split(re.sub(r" [>|] .*", "", line.removeprefix("$ ")), comments=True)
                while words and re.match(r"[A-Z_]+=", words[0]):
                    words.pop(0)
                if words:
                    yield pytest.param(words, id=f"{a_page.name}: {' '.join(words)}"[:90])


@pytest.mark.parametrize("words", list(command_lines()))
def test_every_command_can_be_typed(words: list[str]) -> None:
    program, *arguments = words
    if program == "kafka-sidecar":
        command: Any = commands_of(app)
        while hasattr(command, "commands"):
            command, arguments = command.commands[arguments[0]], arguments[1:]
        command.make_context("kafka-sidecar", arguments)  # raises where an argument or flag is unknown
    elif arguments[:1] == ["-m"]:
        assert find_spec(arguments[1]) is not None
    elif program.endswith("python"):
        written = {block.mark for a_page in PAGES for block in a_page.blocks}
        assert (ROOT / arguments[0]).is_file() or f"file {arguments[0]}" in written
    else:
        assert program in {"make", "docker", "curl", "git", ".", "pip", "helm", "kubectl", "java", "head", "go", "sed"}


def test_every_rule_that_comments_and_pages_name_is_in_the_design() -> None:
    code = [(ROOT / path).read_text() for path in modules(*PACKAGES, "tests") if path != Path("tests/test_docs.py")]
    texts = "".join([*code, *(a_page.text for a_page in PAGES)])
    listed = re.findall(r"\((D\d+(?:, D\d+)*)\)", texts)
    named = {rule for one in listed for rule in one.split(", ")} | set(re.findall(r"design (D\d+)", texts))
    assert len(named) > 5
    assert {rule for rule in named if f"| {rule} |" not in page("docs/design.md").text} == set()


def test_the_order_of_the_design_is_that_of_the_list_of_features() -> None:
    (rule,) = re.findall(r"^\| D8 \| (.+) \|$", page("docs/design.md").text, re.MULTILINE)
    order = rule.partition("one order**: ")[2].partition(". ")[0]
    assert re.findall("`(.+?)`", order) == [row.name for row in FEATURES]


def test_the_design_lists_every_folder_and_their_number() -> None:
    section = page("docs/design.md").section("Structure")
    assert sorted(re.findall(r"^\* \[`(\w+)/`\]", section, re.MULTILINE)) == sorted(PACKAGES)
    assert section.strip().startswith(f"{NUMBERS[len(PACKAGES)].capitalize()} folders")


def test_the_front_page_links_every_page_and_counts_the_built_in_interceptors() -> None:
    front = page("README.md")
    linked = {(ROOT / link.target.partition("#")[0]).resolve() for link in front.links}
    apart = ("decisions", "site", "api")
    missing = [a_page.name for a_page in PAGES if a_page.path not in linked and a_page.path.parent.name not in apart]
    assert [name for name in missing if name != "README.md"] == []
    number = len(page("docs/reference/built-in-interceptors.md").titles(2))
    assert f"[{NUMBERS[number].capitalize()} are built in]" in front.text


def test_decisions_are_numbered_and_say_what_was_rejected() -> None:
    decisions = [a_page for a_page in PAGES if a_page.path.parent.name == "decisions"]
    assert [a_page.path.name[:4] for a_page in decisions] == [f"{n:04}" for n in range(1, len(decisions) + 1)]
    for number, a_page in enumerate(decisions, 1):
        assert a_page.titles(1)[0].startswith(f"{number}. ")
        assert a_page.titles(2) == ["Context", "Decision", "Rejected", "Consequences"]


def test_each_case_of_large_messages_has_its_tests() -> None:
    """The tests exist: see `test_every_function_that_is_named_is_in_the_file_that_is_linked`."""
    a_page = page("docs/reference/large-messages.md")
    rows = [line.split("|") for line in a_page.section("Test cases").splitlines() if re.match(r"\| (\d+|`?\w+)", line)]
    assert [row[1].strip() for row in rows if row[1].strip().isdigit()] == [str(number) for number in range(1, 24)]
    assert [row[1] for row in rows if not re.search(r"\[`test_\w+`\]\(", row[3])] == []


def test_each_row_of_what_does_not_go_together_with_large_messages_has_its_tests() -> None:
    a_page = page("docs/reference/large-messages-limits.md")
    rows = [line.strip("| ").split(" | ") for line in a_page.text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 15
    for row in rows:
        assert len(row) == 4, row[0]
        assert re.fullmatch(r"(\[`test_\w+`\]\([^)]+\)(, )?)+", row[3]), row[0]


def test_nothing_is_installed_by_a_name_that_is_not_ours_on_the_index() -> None:
    """Whoever registers it would be installed: by a command, an extra, or as what a plug-in depends on."""
    by_name = re.compile(
        r"install[^\n|]*?[\s'\"`]kafka[-_]sidecar(?![-_/\w*.])|\bkafka[-_]sidecar(\[[a-z]|\s*[><=~!]=)"
    )
    texts = {a_page.name: a_page.text for a_page in all_pages()}
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    texts |= {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sources}
    found = [
        (name, line)
        for name, text in texts.items()
        for line in text.splitlines()
        if by_name.search(line) and "helm " not in line
    ]
    assert found == []
    assert by_name.search("pip install 'kafka-sidecar[cel]'")
    assert by_name.search("pip install --upgrade kafka-sidecar")
    assert by_name.search('dependencies = ["kafka-sidecar>=0.1"]')
