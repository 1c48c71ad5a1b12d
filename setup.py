"""Compiles what `codec/compiled.py` lists, as far as KAFKA_SIDECAR_COMPILE says so. All else is in pyproject.toml.

auto  (default) compile; where that fails, as without a C compiler, install the Python sources alone
yes   compile or fail
no    install the Python sources alone
"""

import os
import runpy
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

choice = os.environ.get("KAFKA_SIDECAR_COMPILE", "auto")
if choice not in ("auto", "yes", "no"):
    raise SystemExit(f"KAFKA_SIDECAR_COMPILE is {choice!r}; it can be auto, yes or no")

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # the .pxd alone gives C types; what the source says is for mypy
    "wraparound": False,  # boundscheck stays on: bytes that lie about lengths raise, they cannot read outside
}


class BuildOrDoWithout(build_ext):
    """What `optional` promises; but with Cython imported, setuptools does not recognise its own CompileError."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            if choice == "yes":
                raise
            self.warn(f"{ext.name} is not compiled: {error}")


def compiled() -> list[Extension]:
    from Cython.Build import cythonize

    modules = runpy.run_path("src/kafka_sidecar/codec/compiled.py")["MODULES"]
    # By the paths under src: by their real paths the source distribution would hold them twice.
    paths = [Path("src", *module.split(".")) for module in modules]
    types = [f"{path}.pxd" for path in paths]  # of all for each: they share the layout of their classes
    # force: C files of an earlier run do not know when the settings here have changed.
    return cythonize(
        [
            Extension(module, [f"{path}.py"], depends=types, optional=choice == "auto")
            for module, path in zip(modules, paths, strict=True)
        ],
        build_dir="build/cython",
        force=True,
        include_path=["src"],
        compiler_directives=DIRECTIVES,
    )


setup(ext_modules=[] if choice == "no" else compiled(), cmdclass={"build_ext": BuildOrDoWithout})
