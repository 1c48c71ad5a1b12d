"""Class paths: a policy's own modules come first and are isolated from the program and other policies."""

from __future__ import annotations

import json
import sys
import threading
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from kafka_sidecar.plugins.class_path import code_state, resolve_class_path
from kafka_sidecar.policies.contract import RecordValidationPolicy
from kafka_sidecar.policies.registry import POLICIES

POLICY = """
from kafka_sidecar.policies.contract import InvalidRecordError, RecordValidationPolicy
import helper

class Orders(RecordValidationPolicy):
    version = helper.VERSION

    def validate(self, topic, record):
        import helper.late
        from helper import late
        raise InvalidRecordError(f"{helper.late.VERSION} {late.VERSION}")
"""


def contents(version: str) -> dict[str, str]:
    return {
        "orders.py": POLICY,
        "helper/__init__.py": f"from .inner import VERSION\nassert VERSION == {version!r}",
        "helper/inner.py": f"import json\nVERSION = {version!r}",
        "helper/late.py": "from helper.inner import VERSION",
    }


def folder(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def archive(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return path


def validated(policy: type[RecordValidationPolicy]) -> str:
    with pytest.raises(Exception) as refused:
        policy().validate(None, None)  # type: ignore[arg-type]
    return str(refused.value)


@pytest.mark.parametrize("kind", ["folder", "orders.zip", "orders-1-py3-none-any.whl"])
def test_a_class_is_loaded_from_folders_zips_and_wheels(kind: str, tmp_path: Path) -> None:
    place = folder(tmp_path / kind, contents("1")) if kind == "folder" else archive(tmp_path / kind, contents("1"))
    found = POLICIES.find("orders:Orders", str(place))
    assert issubclass(found, RecordValidationPolicy)
    assert validated(found) == "1 1"


def test_two_policies_keep_their_own_versions_of_a_module_also_for_late_imports(tmp_path: Path) -> None:
    one = POLICIES.find("orders:Orders", str(folder(tmp_path / "1", contents("1"))))
    other = POLICIES.find("orders.Orders", str(archive(tmp_path / "2.zip", contents("2"))))
    assert (validated(one), validated(other), validated(one)) == ("1 1", "2 2", "1 1")


def test_the_program_does_not_see_the_modules_of_a_class_path(tmp_path: Path) -> None:
    before, path, finders = set(sys.modules), list(sys.path), list(sys.meta_path)
    validated(POLICIES.find("orders:Orders", str(folder(tmp_path, contents("1")))))
    assert {name for name in set(sys.modules) - before if name.partition(".")[0] in {"orders", "helper"}} == set()
    assert (sys.path, sys.meta_path) == (path, finders)


def test_a_module_of_the_class_path_precedes_an_installed_one_of_the_same_name(tmp_path: Path) -> None:
    source = "from kafka_sidecar.policies.contract import RecordValidationPolicy as P\nimport json\n"
    files = {"orders.py": f"{source}class Orders(P):\n    version = json.VERSION", "json.py": "VERSION = 'mine'"}
    found = POLICIES.find("orders:Orders", str(folder(tmp_path, files)))
    assert found.version == "mine"  # type: ignore[attr-defined]
    assert sys.modules["json"] is json
    assert json.loads("1") == 1


def test_a_module_that_is_not_on_the_class_path_is_imported_from_the_program(tmp_path: Path) -> None:
    found = POLICIES.find(
        "kafka_sidecar.policies.builtin.require_header:RequireHeader", str(folder(tmp_path, contents("1")))
    )
    assert found is POLICIES.find("require_header")


def test_the_contract_cannot_be_replaced(tmp_path: Path) -> None:
    files = {"kafka_sidecar/__init__.py": "raise AssertionError", **contents("1")}
    assert validated(POLICIES.find("orders:Orders", str(folder(tmp_path, files)))) == "1 1"


def test_a_star_adds_all_archives_of_a_folder(tmp_path: Path) -> None:
    archive(tmp_path / "b.whl", {"b.py": ""})
    archive(tmp_path / "a.zip", {"a.py": ""})
    (tmp_path / "readme.txt").write_text("")
    assert resolve_class_path(f"{tmp_path}/*:{tmp_path}") == [f"{tmp_path}/a.zip", f"{tmp_path}/b.whl", str(tmp_path)]


@pytest.mark.parametrize("class_path", ["/nowhere/at/all", "", ":"])
def test_a_class_path_that_does_not_exist_is_rejected(class_path: str) -> None:
    with pytest.raises(ValueError, match="class path: "):
        POLICIES.find("orders:Orders", class_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nothing_like_this", "cannot be imported: No module named 'nothing_like_this'"),
        ("1 / 0", "its module failed: ZeroDivisionError"),
        ("Orders = 1", "is not a subclass"),
        ("", "has no such class"),
    ],
)
def test_a_failed_import_from_a_class_path_is_reported_with_the_path(source: str, message: str, tmp_path: Path) -> None:
    place = folder(tmp_path, {"orders.py": source})
    with pytest.raises(ValueError, match=message) as refused:
        POLICIES.find("orders:Orders", str(place))
    assert f"on the class path {place}" in str(refused.value)
    assert "orders" not in sys.modules


def test_a_folder_of_a_class_path_hides_no_module_of_the_program(tmp_path: Path) -> None:
    source = "from kafka_sidecar.policies.contract import RecordValidationPolicy as P\nimport json\n"
    files = {"orders.py": f"{source}class Orders(P):\n    version = json.__file__", "json/schema.txt": ""}
    found = POLICIES.find("orders:Orders", str(folder(tmp_path, files)))
    assert found.version == json.__file__  # type: ignore[attr-defined]


def test_a_class_can_be_in_a_package_without_an_init_file(tmp_path: Path) -> None:
    files = {
        f"com/acme/{name}": text.replace("import helper", "import com.acme.helper as helper")
        for name, text in contents("3").items()
    }
    files["com/acme/orders.py"] = (
        "from com.acme import helper\n"
        + POLICY.partition("import helper")[0]
        + "class Orders(RecordValidationPolicy):\n    version = helper.VERSION"
    )
    assert POLICIES.find("com.acme.orders.Orders", str(folder(tmp_path, files))).version == "3"  # type: ignore[attr-defined]


def test_a_namespace_package_is_merged_with_the_installed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = folder(tmp_path / "program", {"space/theirs.py": "NAME = 'theirs'", "space/both.py": "NAME = 'theirs'"})
    monkeypatch.syspath_prepend(str(programs))
    source = "from kafka_sidecar.policies.contract import RecordValidationPolicy as P\n"
    source += "from space import theirs, ours, both\nclass Orders(P):\n    names = theirs.NAME, ours.NAME, both.NAME"
    files = {"orders.py": source, "space/ours.py": "NAME = 'ours'", "space/both.py": "NAME = 'ours'"}
    found = POLICIES.find("orders:Orders", str(folder(tmp_path / "own", files)))
    assert found.names == ("theirs", "ours", "ours")  # type: ignore[attr-defined]
    from space import both  # type: ignore[import-not-found]

    assert both.NAME == "theirs"
    for name in [name for name in sys.modules if name.partition(".")[0] == "space"]:
        del sys.modules[name]


def test_a_loaded_module_is_imported_without_waiting_for_other_class_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = POLICIES.find("orders:Orders", str(folder(tmp_path / "1", contents("1"))))
    assert validated(found) == "1 1"
    gate = ModuleType("gate_of_the_test")
    entered, leave = threading.Event(), threading.Event()
    vars(gate).update(entered=entered, leave=leave)
    monkeypatch.setitem(sys.modules, gate.__name__, gate)
    source = "import gate_of_the_test as gate\ngate.entered.set()\ngate.leave.wait(30)\n"
    place = str(folder(tmp_path / "2", {**contents("2"), "orders.py": source + POLICY}))
    loading = threading.Thread(target=POLICIES.find, args=("orders:Orders", place))
    loading.start()
    assert entered.wait(30)
    answers: list[str] = []
    validating = threading.Thread(target=lambda: answers.append(validated(found)))
    validating.start()
    validating.join(30)
    leave.set()
    loading.join(30)
    assert answers == ["1 1"]


def test_a_lazy_import_of_a_package_finds_its_own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = "def __getattr__(name):\n    from importlib import import_module\n"
    lazy += "    if name not in ('EARLY', 'LATE'):\n        raise AttributeError(name)\n"
    lazy += "    globals()[name] = found = getattr(import_module('.lazy', __name__), name)\n    return found\n"
    programs = {"helper/__init__.py": lazy, "helper/lazy.py": "EARLY = LATE = 'theirs'"}
    monkeypatch.syspath_prepend(str(folder(tmp_path / "program", programs)))
    own = {"helper/__init__.py": lazy, "helper/lazy.py": "EARLY = LATE = 'ours'"}
    source = "from kafka_sidecar.policies.contract import InvalidRecordError, RecordValidationPolicy as P\n"
    source += "from helper import EARLY\nclass Orders(P):\n    def validate(self, topic, record):\n"
    source += "        from helper import LATE\n        raise InvalidRecordError(EARLY + LATE)\n"
    found = POLICIES.find("orders:Orders", str(folder(tmp_path / "own", {"orders.py": source, **own})))
    assert (validated(found), validated(found)) == ("oursours", "oursours")
    import helper  # type: ignore[import-not-found]

    assert helper.LATE == "theirs"
    for name in [name for name in sys.modules if name.partition(".")[0] == "helper"]:
        del sys.modules[name]


def test_the_state_of_code_differs_after_a_module_is_changed_added_or_removed(tmp_path: Path) -> None:
    place = folder(tmp_path / "code", {"orders.py": "A = 1", "helper/inner.py": "B = 1"})
    states = [code_state(str(place))]
    for change in ({"orders.py": "A = 10"}, {"helper/inner.py": "B = 10"}, {"helper/late.py": ""}):
        folder(place, change)
        states.append(code_state(str(place)))
    (place / "orders.py").unlink()
    states.append(code_state(str(place)))
    assert len(set(states)) == len(states)


def test_what_is_not_code_does_not_change_the_state_of_code(tmp_path: Path) -> None:
    place = folder(tmp_path / "code", {"orders.py": "A = 1"})
    before = code_state(str(place))
    folder(place, {"state.json": "{}", "__pycache__/orders.cpython-311.pyc": "", ".git/hooks/hook.py": ""})
    assert code_state(str(place)) == before


def test_the_state_of_code_differs_after_an_archive_is_replaced_or_one_is_added(tmp_path: Path) -> None:
    first = archive(tmp_path / "a.whl", {"orders.py": "A = 1"})
    states = [code_state(str(tmp_path / "*"))]
    archive(first, {"orders.py": "A = 10", "helper.py": ""})
    states.append(code_state(str(tmp_path / "*")))
    archive(tmp_path / "b.zip", {"other.py": ""})
    states.append(code_state(str(tmp_path / "*")))
    assert len(set(states)) == 3


def test_the_state_of_code_differs_after_a_link_leads_elsewhere_as_kubernetes_makes_them(tmp_path: Path) -> None:
    for version in ("1", "2"):
        folder(tmp_path / version, {"orders.py": "A = 1"})
    place = tmp_path / "mounted"
    place.mkdir()
    (place / "orders.py").symlink_to(tmp_path / "1" / "orders.py")
    before = code_state(str(place))
    (place / "orders.py").unlink()
    (place / "orders.py").symlink_to(tmp_path / "2" / "orders.py")
    assert code_state(str(place)) != before


def test_without_a_class_path_there_is_no_code_that_may_change() -> None:
    assert code_state(None) == frozenset()
