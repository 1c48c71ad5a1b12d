"""Plays the steps of the Dockerfile without a builder: overlays, namespaces and chroot; needs root.

    python -m artefacts.player BASE_ROOT FOLDER     (in tests/)

Each stage is a layer over the base root, each RUN a process in namespaces of its own, but the host's network.
The result is FOLDER/layer, the image without its base, and FOLDER/config.json: user, command and environment.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from artefacts.dockerfile import ROOT, Stage, Step, copy_context, read_stages

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of the base image
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")


@dataclass(slots=True)
class Layer:
    """One stage while it is played."""

    base: Path
    folder: Path
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = ""
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("layer", "work", "merged"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def merged(self) -> Path:
        return self.folder / "merged"

    def mounting(self) -> str:
        """The shell command that shows base and layer as one root."""
        options = f"lowerdir={self.base},upperdir={self.folder}/layer,workdir={self.folder}/work"
        return f"mount -t overlay overlay -o {shlex.quote(options)} {shlex.quote(str(self.merged))}"

    @property
    def values(self) -> Mapping[str, str]:
        return self.arguments | self.env


def play(base: Path, folder: Path, build_arguments: Mapping[str, str]) -> Layer:
    """Plays all stages; returns the last one."""
    context = copy_context(folder / "context")
    done: dict[str, Layer] = {}
    for number, stage in enumerate(read_stages(ROOT / "Dockerfile", build_arguments)):
        layer = done[stage.name] = Layer(base, folder / f"stage-{number}")
        _play_stage(stage, layer, done, context, build_arguments)
    return layer


def _play_stage(
    stage: Stage, layer: Layer, done: Mapping[str, Layer], context: Path, build_arguments: Mapping[str, str]
) -> None:
    for step in stage.steps:
        print(step.word, step.text, flush=True)
        match step.word:
            case "RUN":
                _run(layer, step)
            case "COPY":
                _copy(layer, step, done, context)
            case "ARG":
                name, _, default = step.text.partition("=")
                layer.arguments[name] = build_arguments.get(name, default)
            case "WORKDIR":
                layer.directory = step.text
                _in_root(layer, f"mkdir -p {layer.merged}{step.text}")
            case _:
                _set_config(layer, step)


def _set_config(layer: Layer, step: Step) -> None:
    match step.word:
        case "ENV":
            layer.env |= dict(word.split("=", 1) for word in step.words(layer.values))
        case "LABEL":
            layer.labels |= dict(word.split("=", 1) for word in step.words(layer.values))
        case "USER":
            layer.user = step.text
        case "ENTRYPOINT":
            layer.entrypoint = step.exec_form() or []
        case "CMD":
            layer.command = step.exec_form() or []
        case other:
            raise ValueError(f"the Dockerfile has an instruction that is not played: {other}")


def _run(layer: Layer, step: Step) -> None:
    words = step.exec_form() or ["/bin/sh", "-c", f"cd {layer.directory} && {step.text}"]
    env = [f"{name}={value}" for name, value in layer.values.items()]
    entered = shlex.join(["chroot", str(layer.merged), "env", "-i", *env, *words])
    shared = " && ".join(f"mount --bind {path} {layer.merged}{path}" for path in ("/dev", "/etc/resolv.conf"))
    _in_root(layer, f"mount -t proc proc {layer.merged}/proc && {shared} && {entered}")


def _copy(layer: Layer, step: Step, done: Mapping[str, Layer], context: Path) -> None:
    *sources, target = [word for word in step.words(layer.values) if not word.startswith("--")]
    origin = next((word.removeprefix("--from=") for word in step.words({}) if word.startswith("--from=")), None)
    top = done[origin].merged if origin else context
    to = layer.merged / Path(layer.directory, target).relative_to("/")
    commands = [done[origin].mounting()] if origin else []
    # A folder's contents are copied, not the folder.
    paths = {source: f"{top}/{source.strip('/')}" for source in sources}
    contents = [f"{path}/." if origin or (top / source).is_dir() else path for source, path in paths.items()]
    commands += [f"mkdir -p {to}", f"cp -a --no-preserve=ownership {shlex.join(contents)} {to}/"]
    _in_root(layer, " && ".join(commands))


def _in_root(layer: Layer, command: str) -> None:
    """Runs a shell command in namespaces where the layer's root is mounted; they end with it."""
    subprocess.run([*NAMESPACES, "sh", "-ec", f"{layer.mounting()} && {command}"], check=True)


def main() -> None:
    base, folder = map(Path, sys.argv[1:3])
    last = play(base.resolve(), folder.resolve(), dict(word.split("=", 1) for word in sys.argv[3:]))
    config = {name: getattr(last, name) for name in ("user", "entrypoint", "command", "env", "labels")}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "layer").symlink_to(last.folder / "layer")


if __name__ == "__main__":
    main()
