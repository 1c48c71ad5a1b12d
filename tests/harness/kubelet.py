"""What a kubelet does with one container of a pod: mounts, variables, probes, hooks and signals, all by its manifest.

In place of a network of its own the pod has a loopback address, to which variables bind its listeners.
Without an image the container is the installed program, and a mount is a folder whose path replaces the manifest's.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import admin_pages
from harness.processes import Program
from harness.sidecar import COMMAND

Manifest = Mapping[str, Any]
# The command that runs arguments in an image, with mounts and variables.
Image = Callable[[Sequence[str], Mapping[str, Path], Mapping[str, str]], Sequence[str]]
POD_NAME = "orders-6d5f7c-x2v4q"


def project(folder: Path, files: Mapping[str, str]) -> None:
    """Mounts or updates a ConfigMap or Secret as kubelets do: a new folder, then one link is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "..data"
    old = data.resolve() if data.is_symlink() else None
    new = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    new.chmod(0o755)
    for name, text in files.items():
        (new / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data_tmp").symlink_to(new.name)
    (folder / "..data_tmp").replace(data)
    for entry in folder.iterdir():
        if entry.is_symlink() and entry != data and entry.name not in files:
            entry.unlink()
    if old is not None:
        shutil.rmtree(old)


class Objects:
    """The ConfigMaps and Secrets of the pod's namespace."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._all = {
            (one["kind"], one["metadata"]["name"]): _texts(one)
            for one in manifests
            if one["kind"] in ("ConfigMap", "Secret")
        }

    def config_map(self, name: str) -> Mapping[str, str]:
        return self._all["ConfigMap", name]

    def secret(self, name: str) -> Mapping[str, str]:
        return self._all["Secret", name]


def _texts(manifest: Manifest) -> dict[str, str]:
    data = dict(manifest.get("data", {}))
    if manifest["kind"] == "Secret":
        data = {key: base64.b64decode(text).decode() for key, text in data.items()}
    return data | dict(manifest.get("stringData", {}))


class Container:
    """The sidecar's container of a pod."""

    def __init__(
        self,
        pod: Manifest,
        container: Manifest,
        objects: Objects,
        folder: Path,
        address: str,
        brokers: str,
        image: Image | None = None,
    ) -> None:
        self.address = address
        self.log = folder / "container.log"
        self._pod, self._container, self._objects = pod, container, objects
        self._folder, self._brokers, self._image = folder, brokers, image
        self._program: Program | None = None

    @property
    def program(self) -> Program:
        assert self._program is not None, "the container was not started"
        return self._program

    def start(self) -> None:
        """Mounts, starts, and waits for the startup probe."""
        self._start()
        probe = self._container["startupProbe"]
        for _ in range(probe.get("failureThreshold", 3)):
            if self.probe("startup"):
                return
            assert self.program.is_running, self.program.output()
            time.sleep(probe.get("periodSeconds", 10))
        raise AssertionError(f"the startup probe failed:\n{self.program.output()}")

    def run(self, limit_s: float = 30) -> int:
        """Runs a container that ends by itself; returns its exit code."""
        self._start()
        return self.program.popen.wait(limit_s)

    def _start(self) -> None:
        for volume in self._pod["volumes"]:
            self._mount(volume)
        self._program = Program(self._command(self._container["args"]), self.log)

    def update(self, files: Mapping[str, str]) -> None:
        """What follows a change of the ConfigMap that has the configuration."""
        (mount,) = [one for one in self._container["volumeMounts"] if one["name"] == "kafka-sidecar-config"]
        assert "subPath" not in mount, "a subPath never changes"
        project(self._volume(mount["name"]), {name: self._mapped(text) for name, text in files.items()})

    def probe(self, kind: str) -> bool:
        """One call of a probe."""
        probe = self._container[f"{kind}Probe"]
        limit_s = probe.get("timeoutSeconds", 1)
        try:
            if "httpGet" in probe:
                url = f"http://{self.address}:{self._port(probe['httpGet']['port'])}{probe['httpGet']['path']}"
                return 200 <= admin_pages.get(url, limit_s).status < 400
            with socket.create_connection((self.address, self._port(probe["tcpSocket"]["port"])), limit_s):
                return True
        except OSError:
            return False

    def begin_to_end(self) -> subprocess.Popen[bytes] | None:
        """The `preStop` hook, which runs when the pod is deleted and before SIGTERM."""
        hook = self._container.get("lifecycle", {}).get("preStop")
        if hook is None:
            return None
        command = hook["exec"]["command"] if "exec" in hook else ["sleep", str(hook["sleep"]["seconds"])]
        return subprocess.Popen(command)

    def end(self) -> int:
        """SIGTERM, and SIGKILL after the grace period; returns the exit code."""
        os.kill(self._process_1(), signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            return self.program.popen.wait(self._pod["terminationGracePeriodSeconds"])
        self.kill()
        return self.program.popen.returncode

    def kill(self) -> None:
        if self._program is not None:
            self._program.kill()

    def _process_1(self) -> int:
        pid = self.program.pid
        if self._image is None:
            return pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])  # of the namespaces' creator

    def _command(self, arguments: Sequence[str]) -> Sequence[str | Path]:
        variables = self._variables()
        if self._image is not None:
            mounts = {one["mountPath"]: self._volume(one["name"]) for one in self._container["volumeMounts"]}
            del mounts["/tmp"]  # the image's runtime mounts an empty one
            return self._image(arguments, mounts, variables)
        entry_point = self._container.get("command", [str(COMMAND)])
        variables["PATH"] = f"{COMMAND.parent}:/usr/bin:/bin"  # the image's, too, has the sidecar's Python first
        settings = [f"{name}={value}" for name, value in variables.items()]
        return ["env", "-i", *settings, *entry_point, *map(self._mapped, arguments)]

    def _mount(self, volume: Manifest) -> None:
        folder = self._volume(volume["name"])
        folder.mkdir(parents=True)
        if "configMap" in volume:
            files = self._objects.config_map(volume["configMap"]["name"])
        elif "secret" in volume:
            files = self._objects.secret(volume["secret"]["secretName"])
        else:
            return  # emptyDir
        project(folder, {name: self._mapped(text) for name, text in files.items()})

    def _volume(self, name: str) -> Path:
        return self._folder / "volumes" / name

    def _mapped(self, text: str) -> str:
        if self._image is not None:
            return text
        folders = {mount["mountPath"]: str(self._volume(mount["name"])) for mount in self._container["volumeMounts"]}
        return re.sub("|".join(map(re.escape, folders)), lambda path: folders[path[0]], text)

    def _variables(self) -> dict[str, str]:
        variables = dict[str, str]()
        for source in self._container.get("envFrom", []):
            kind, name = next((kind, reference["name"]) for kind, reference in source.items())
            variables |= self._objects.secret(name) if kind == "secretRef" else self._objects.config_map(name)
        variables |= dict(self._named_variables())
        for name in variables.keys() & {"KAFKA_SIDECAR__LISTEN", "KAFKA_SIDECAR__ADMIN__LISTEN"}:
            variables[name] = f"{self.address}:{variables[name].rpartition(':')[2]}"
        return variables | {
            "KAFKA_SIDECAR__NODES__ADVERTISED_HOST": self.address,
            "KAFKA_SIDECAR__BOOTSTRAP_SERVERS": self._brokers,
        }

    def _named_variables(self) -> Iterator[tuple[str, str]]:
        for variable in self._container.get("env", []):
            source = variable.get("valueFrom", {})
            if "secretKeyRef" in source:
                yield (
                    variable["name"],
                    self._objects.secret(source["secretKeyRef"]["name"])[source["secretKeyRef"]["key"]],
                )
            elif "fieldRef" in source:
                yield variable["name"], {"metadata.name": POD_NAME}[source["fieldRef"]["fieldPath"]]
            else:
                yield variable["name"], self._mapped(variable["value"])

    def _port(self, port: str | int) -> int:
        if isinstance(port, int):
            return port
        return next(int(one["containerPort"]) for one in self._container["ports"] if one["name"] == port)
