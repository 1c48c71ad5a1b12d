"""The sidecar is added to manifests of all shapes, once, and removed again, comments kept.

The reference does it with the data of the manifest alone, and knows nothing of its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from kafka_sidecar.deploy.container import VARIABLE, Sidecar, build_container, build_volumes
from kafka_sidecar.deploy.inject import ANNOTATION, Changed, inject, remove
from kafka_sidecar.deploy.manifest import ManifestError

MANIFESTS = sorted(path for path in (Path(__file__).parent / "manifests").iterdir())
SIDECAR = Sidecar("registry.example.com/kafka-sidecar:0.1.0", bootstrap_servers={"value": "kafka:9092"})
PROFILE = settings.default or settings()
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # six times as fast
each_manifest = pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)


def some_manifests(at: int) -> pytest.MarkDecorator:
    """Every third of them, from this one on; all in `make test-all`."""
    return pytest.mark.parametrize("manifest", some(MANIFESTS, of=3, at=at), ids=lambda path: path.name)


KINDS = {
    "Pod": (),
    "ReplicationController": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "Job": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


def read(manifest: Path) -> str:
    return manifest.read_bytes().decode()


@cache
def with_sidecar(manifest: Path) -> Changed:
    return inject(read(manifest), SIDECAR)


def load(text: str) -> list[Any]:
    return deepcopy(list(yaml.load_all(text, LOADER)))


def templates(document: Any) -> Iterator[Any]:
    if isinstance(document, dict) and document.get("kind") == "List":
        for item in document["items"]:
            yield from templates(item)
    elif isinstance(document, dict) and document.get("kind") in KINDS and "argoproj" not in document["apiVersion"]:
        for key in KINDS[document["kind"]]:
            document = document[key]
        yield document


def without_aliases(document: Any) -> Any:
    return json.loads(json.dumps(document, default=str))


def expected(text: str, sidecar: Sidecar) -> list[Any]:
    """The data with the sidecar; the annotation's value is not known."""
    documents = [without_aliases(document) for document in load(text)]
    for template in (template for document in documents for template in templates(document)):
        spec = template["spec"]
        lists = ["containers"] if sidecar.is_plain else ["initContainers", "containers"]
        for container in (one for key in lists for one in spec.get(key) or []):
            variable = {"name": VARIABLE, "value": sidecar.address}
            env = container.get("env") or []
            named = [variable if item["name"] == VARIABLE else item for item in env]
            if variable in named or container in spec["containers"]:
                container["env"] = named if variable in named else [variable, *named]
        place = lists[0]
        spec[place] = [build_container(sidecar), *(spec.get(place) or [])]
        spec["volumes"] = [*build_volumes(sidecar), *(spec.get("volumes") or [])]
        template["metadata"] = template.get("metadata") or {}
        template["metadata"]["annotations"] = {ANNOTATION: "", **(template["metadata"].get("annotations") or {})}
    return documents


def without_record(text: str) -> list[Any]:
    documents = [without_aliases(document) for document in load(text)]
    for template in (template for document in documents for template in templates(document)):
        template["metadata"]["annotations"][ANNOTATION] = ""
    return documents


@each_manifest
def test_every_pod_gets_the_sidecar_and_nothing_else_changes(manifest: Path) -> None:
    text = read(manifest)
    assert without_record(with_sidecar(manifest).text) == expected(text, SIDECAR)


@each_manifest
def test_comments_stay_in_their_order_but_those_of_what_is_replaced(manifest: Path) -> None:
    text = read(manifest)
    found = iter(comments(with_sidecar(manifest).text))
    lost = [comment for comment in comments(text) if comment not in found]
    assert lost == (["# one for each cluster"] if manifest.name == "statefulset.yaml" else [])


def comments(text: str) -> list[str]:
    return re.findall(r"(?:^|\s)(#[^\r\n]*)", text)


@each_manifest
def test_a_document_without_pods_keeps_its_bytes(manifest: Path) -> None:
    text = read(manifest)
    injected = with_sidecar(manifest).text
    without = [part for part in re.split("(?m)^(?=---)", text) if "containers" not in part]
    assert [part for part in without if part not in injected] == []


def test_only_lines_of_the_sidecar_change_where_the_layout_is_the_usual_one() -> None:
    text = read(Path(__file__).parent / "manifests" / "deployment.yaml")
    injected = inject(text, SIDECAR).text
    lines = set(injected.splitlines())
    assert [line for line in text.splitlines() if line not in lines] == [
        line for line in text.splitlines() if 'value: "kafka-1' in line
    ]
    assert remove(injected).text == text


@some_manifests(0)
def test_twice_is_once(manifest: Path) -> None:
    once = with_sidecar(manifest)
    assert inject(once.text, SIDECAR) == once


@each_manifest
def test_removing_it_gives_what_was_there_before(manifest: Path) -> None:
    text = read(manifest)
    removed = remove(with_sidecar(manifest).text).text
    assert load(removed) == load(text)
    assert manifest.name == "statefulset.yaml" or comments(removed) == comments(text)


@each_manifest
def test_a_manifest_without_it_is_not_changed_by_removing_it(manifest: Path) -> None:
    text = read(manifest)
    assert remove(text).text == text
    assert remove(text).pods == ()


@some_manifests(1)
def test_another_sidecar_is_injected_in_place_of_the_first(manifest: Path) -> None:
    text, other = read(manifest), replace(SIDECAR, image="kafka-sidecar:2", config_map="kafka-sidecar", port=29092)
    assert inject(inject(text, SIDECAR).text, other) == inject(text, other)


@some_manifests(2)
def test_what_other_programs_have_written_again_is_removed_too(manifest: Path) -> None:
    """As after `kubectl apply` and `kubectl get -o yaml`."""
    text = read(manifest)
    written = yaml.safe_dump_all(map(without_aliases, load(with_sidecar(manifest).text)))
    assert data_of(remove(written).text) == data_of(text)


@some_manifests(3)
def test_what_other_programs_have_converted_to_json_is_removed_too(manifest: Path) -> None:
    text = read(manifest)
    documents = [json.dumps(document, default=str, indent=2) for document in load(with_sidecar(manifest).text)]
    assert data_of(remove("\n---\n".join(documents) + "\n").text) == data_of(text)


def data_of(text: str) -> list[Any]:
    """Without the difference between what is empty and what is absent."""
    return [without_nothing(without_aliases(document)) for document in load(text)]


def without_nothing(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: without_nothing(value) for key, value in node.items() if value not in (None, [], {}, "")}
    return [without_nothing(item) for item in node] if isinstance(node, list) else node


def pod(container: str, rest: str = "", kind: str = "Pod", version: str = "v1") -> str:
    return (
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: p}}\nspec:\n  containers:\n    - {container}\n{rest}"
    )


def test_the_sidecar_has_the_brokers_that_the_application_had() -> None:
    text = read(Path(__file__).parent / "manifests" / "statefulset.yaml")
    spec = yaml.safe_load_all(inject(text, replace(SIDECAR, bootstrap_servers=None)).text)
    variables = [*spec][1]["spec"]["template"]["spec"]["initContainers"][0]["env"]
    reference = {"configMapKeyRef": {"name": "kafka", "key": "bootstrap.servers"}}
    assert variables[-1] == {"name": "KAFKA_SIDECAR__BOOTSTRAP_SERVERS", "valueFrom": reference}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            pod("{name: a}"),
            "Pod p: no container has KAFKA_BOOTSTRAP_SERVERS: name the brokers with --bootstrap-servers",
        ),
        (
            pod("{name: a, env: [{name: KAFKA_BOOTSTRAP_SERVERS, value: a:1}]}\n")
            + "    - {name: b, env: [{name: KAFKA_BOOTSTRAP_SERVERS, value: b:1}]}\n",
            "Pod p: KAFKA_BOOTSTRAP_SERVERS has different values: ",
        ),
        (
            pod("{name: a, env: [{name: KAFKA_BOOTSTRAP_SERVERS, value: '$(HOST):1'}]}"),
            "Pod p: KAFKA_BOOTSTRAP_SERVERS refers to other variables of its container: ",
        ),
        (pod("{name: kafka-sidecar}"), 'Pod p: it has a container "kafka-sidecar" that was not injected'),
        (pod("{name: a, ports: [{containerPort: 9190}]}"), "Pod p: container a uses port 9190: choose another with"),
        (pod("{name: a}").replace("- {name: a}", "[]"), "Pod p: it has no containers"),
    ],
)
def test_a_pod_that_cannot_have_it_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as error:
        inject(text, replace(SIDECAR, bootstrap_servers=None))
    assert str(error.value).startswith(problem)


def test_a_list_that_is_none_is_an_error() -> None:
    with pytest.raises(ManifestError, match=r"^Pod p: volumes: write a list$"):
        inject(pod("name: a", "  volumes: {a: b}\n"), SIDECAR)


@pytest.mark.parametrize("name", ["job", "cronjob", "deployment"])
def test_a_plain_container_ends_by_itself_in_a_pod_that_has_to_end(name: str) -> None:
    text = read(Path(__file__).parent / "manifests" / f"{name}.yaml")
    injected = inject(text, replace(SIDECAR, is_plain=True)).text
    ends_by_itself = "- name: KAFKA_SIDECAR__CONNECTIONS__EXIT_WHEN_UNUSED" in injected
    assert ends_by_itself == (name != "deployment")
    assert load(remove(injected).text) == load(text)


@pytest.mark.parametrize("name", ["deployment", "statefulset", "daemonset", "anchors", "windows"])
def test_a_plain_container_is_added_and_removed_like_a_native_one(name: str) -> None:
    text, plain = read(Path(__file__).parent / "manifests" / f"{name}.yaml"), replace(SIDECAR, is_plain=True)
    injected = inject(text, plain).text
    assert inject(injected, plain).text == injected
    assert load(remove(injected).text) == load(text)
    assert load(remove(inject(injected, SIDECAR).text).text) == load(text)


SHARED = """\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: one}
    spec: &spec
      containers:
        - name: app
          env: &env
            - {name: KAFKA_BOOTSTRAP_SERVERS, value: "kafka:9092"}
  - apiVersion: KIND
    kind: Pod
    metadata: {name: two}
    spec: *spec
"""


def test_what_two_pods_share_is_changed_once() -> None:
    text = SHARED.replace("KIND", "v1")
    injected = inject(text, SIDECAR)
    assert injected.pods == ("Pod one", "Pod two")
    assert without_record(injected.text) == expected(text, SIDECAR)
    assert injected.text.count("kind: Pod") == injected.text.count("*spec") + 1 == 2
    assert load(remove(injected.text).text) == load(text)


def test_what_is_shared_with_another_kind_is_an_error() -> None:
    with pytest.raises(ManifestError, match=r"^Pod one: an alias shares what is changed with something else"):
        inject(SHARED.replace("KIND", "example.com/v1"), SIDECAR)


def test_an_annotation_that_was_changed_is_an_error() -> None:
    injected = inject(read(Path(__file__).parent / "manifests" / "deployment.yaml"), SIDECAR).text
    with pytest.raises(ManifestError, match="the annotation kafka-sidecar/injected was changed"):
        remove(injected.replace('{"collections"', '{"other"'))
    with pytest.raises(ManifestError, match="the annotation kafka-sidecar/injected was changed"):
        remove(injected.replace('{"collections"', "no json"))


def edit(text: str) -> str:
    return text.replace("orders:1.4.2", "orders:1.5.0").replace("replicas: 2", "replicas: 3  # more")


def test_what_was_edited_after_the_injection_stays_edited() -> None:
    text = read(Path(__file__).parent / "manifests" / "deployment.yaml")
    edited = text.replace("orders:1.4.2", "orders:1.5.0").replace("replicas: 2", "replicas: 3  # more")
    injected = inject(text, SIDECAR).text
    assert (
        remove(injected.replace("orders:1.4.2", "orders:1.5.0").replace("replicas: 2", "replicas: 3  # more")).text
        == edited
    )


def test_what_was_added_to_a_list_of_the_injection_stays() -> None:
    text = read(Path(__file__).parent / "manifests" / "deployment-without-env.yaml")
    injected = inject(text, SIDECAR).text
    more = "      - emptyDir: {}\n        name: more\n"
    changed = injected.replace("      volumes:\n", f"      volumes:\n{more}")
    assert remove(changed).text == text.replace(
        "      serviceAccountName", f"      volumes:\n{more}      serviceAccountName"
    )


# Collections that pods have, or have empty, or do not have.
NOTHING: Any = st.sampled_from([None, []])
NAMES = st.text("abc: ,#-'\"{}é\n", min_size=1, max_size=6)
VARIABLES: Any = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": NAMES, "value": NAMES}),
        st.fixed_dictionaries({"name": st.just(VARIABLE), "value": NAMES}),
        st.just({"name": VARIABLE, "valueFrom": {"configMapKeyRef": {"key": "brokers", "name": "kafka"}}}),
        st.just({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}, "name": "POD"}),
    ),
    max_size=3,
    unique_by=lambda variable: str(variable["name"]),
)


@st.composite
def workloads(draw: st.DrawFn) -> Any:
    number = draw(st.integers(1, 3))
    containers = [{"name": f"c{index}", "image": draw(NAMES)} for index in range(number)]
    for container in containers:
        if draw(st.booleans()):
            container["env"] = draw(st.one_of(NOTHING, VARIABLES))
    spec = {"containers": containers}
    for key in ("initContainers", "volumes"):
        if draw(st.booleans()):
            spec[key] = draw(st.one_of(NOTHING, st.just([{"name": "other"}])))
    template: Any = {"spec": spec}
    if draw(st.booleans()):
        annotations = st.dictionaries(st.text("ab/.-", min_size=1, max_size=6), NAMES, max_size=2)
        template["metadata"] = draw(st.sampled_from([None, {}, {"labels": {"a": "b"}}]))
        if template["metadata"] is not None and draw(st.booleans()):
            template["metadata"]["annotations"] = draw(st.one_of(st.none(), annotations))
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": template}}


class Indented(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


@pytest.mark.bulk
@settings(max_examples=max(10, PROFILE.max_examples // 4))  # each takes 70 ms
@given(
    documents=st.lists(workloads(), min_size=1, max_size=2),
    style=st.sampled_from([None, True, False]),
    width=st.sampled_from([20, 80, 1000]),
    spaces=st.integers(2, 6),
    dumper=st.sampled_from([yaml.SafeDumper, Indented]),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_manifests_of_any_layout_have_the_same_content_again(
    documents: list[Any], style: bool | None, width: int, spaces: int, dumper: type[yaml.SafeDumper], newline: str
) -> None:
    text = yaml.dump_all(
        documents, Dumper=dumper, default_flow_style=style, width=width, indent=spaces, allow_unicode=True
    ).replace("\n", newline)
    injected = inject(text, SIDECAR).text
    assert without_record(injected) == expected(text, SIDECAR)
    assert inject(injected, SIDECAR).text == injected
    assert load(remove(injected).text) == load(text)
