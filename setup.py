"""Compiles what `codec/compiled.py` lists, as far as KAFKA_SIDECAR_COMPILE says so. All else is in pyproject.toml.

A release sets KAFKA_SIDECAR_URL, where the repository is: the package names it, and the links of its README lead there.

auto  (default) compile; where that fails, as without a C compiler, install the Python sources alone
yes   compile or fail
no    install the Python sources alone
"""

import os
import re
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

choice = os.environ.get("KAFKA_SIDECAR_COMPILE", "auto")
if choice not in ("auto", "yes", "no"):
    raise SystemExit(f"KAFKA_SIDECAR_COMPILE is {choice!r}; it can be auto, yes or no")

DIRECTIVES = {
    "language_level": 3,
    "binding": False,  # functions and methods of C, which the interpreter calls with fewer steps
    "annotation_typing": False,  # the .pxd alone gives C types; what the source says is for mypy
    "wraparound": False,  # boundscheck stays on: bytes that lie about lengths raise, they cannot read outside
}


class BuildOrDoWithout(build_ext):
    """What `optional` promises; but with Cython imported, setuptools does not recognise its own CompileError."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

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
            Extension(
                module,
                [f"{path}.py"],
                depends=types,
                optional=choice == "auto",
                extra_compile_args=["-g0"],  # what debuggers read is four fifths of a wheel otherwise
            )
            for module, path in zip(modules, paths, strict=True)
        ],
        build_dir="build/cython",
        nthreads=(os.cpu_count() or 1) if sys.platform == "linux" else 0,  # elsewhere a process runs this file again
        force=True,
        include_path=["src"],
        compiler_directives=DIRECTIVES,
    )


def urls(repository: str) -> dict[str, str]:
    pages = {"Documentation": "docs/tutorial.md", "Upgrade": "docs/how-to/upgrade.md", "Changelog": "CHANGELOG.md"}
    return {"Homepage": repository} | {name: f"{repository}/blob/main/{page}" for name, page in pages.items()}


repository = os.environ.get("KAFKA_SIDECAR_URL", "").rstrip("/")
readme = Path("README.md").read_text(encoding="utf-8")


def with_links(page: str) -> str:
    """A page of the root whose links and images are those of the repository, wherever it is read."""
    page = re.sub(r"(!\[[^\]]*\])\((?!\w+:)", rf"\1({repository}/raw/main/", page)
    return re.sub(r"\]\((?!\w+:|#)", f"]({repository}/blob/main/", page)


setup(
    project_urls=urls(repository) if repository else {},
    long_description=with_links(readme) if repository else readme,
    long_description_content_type="text/markdown",
    ext_modules=[] if choice == "no" else compiled(),
    cmdclass={"build_ext": BuildOrDoWithout},
    options={"build_ext": {"parallel": os.cpu_count()}},
)
