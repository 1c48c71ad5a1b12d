"""Pages of the interface for plug-ins: docstrings, and the comments after fields, which autodoc does not read."""

from __future__ import annotations

import builtins
import io
import re
import tokenize
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

PAGES = Path(__file__).parents[1] / "api"
MODULES = sorted(f"kafka_sidecar.{page.stem}" for page in PAGES.glob("*.md") if page.stem != "index")
# `name: type = value  # what it is`, indented by four in a class.
FIELD = re.compile(r"(?: {4})?(\w+)\s*(?::|=(?!=))")
CLASS = re.compile(r"class (\w+)")
SECTIONS = Config(napoleon_numpy_docstring=False, napoleon_use_rtype=False)


@cache
def comments(module: str) -> dict[str, str]:
    """What stands after the fields of a module and of its classes, by their names."""
    source = Path(import_module(module).__file__ or "").read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    after = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    found, of_class = {}, ""
    for number, line in enumerate(source.splitlines(), 1):
        if re.match(r"[\w@]", line):
            of_class = f"{named[1]}." if (named := CLASS.match(line)) else ""
        if (field := FIELD.match(line)) and number in after and not after[number].startswith(("noqa", "type:")):
            found[of_class + field[1]] = after[number]
    return found


def _complete(app: Sphinx, kind: str, name: str, it: Any, options: Any, lines: list[str]) -> None:
    """The sections of a docstring ("Raises:") as lists; for a field without one, its comment."""
    if kind not in ("attribute", "data", "module"):
        # Of a property it would read what stands before a colon as its type.
        form = "method" if kind == "property" else kind
        lines[:] = GoogleDocstring(lines, SECTIONS, app, form, name, it, options).lines()
    elif not any(lines) or lines[0].startswith("Alias for field number"):  # of a named tuple
        of = max((module for module in MODULES if name.startswith(f"{module}.")), key=len)
        lines[:] = [comments(of).get(name.removeprefix(f"{of}."), "")]


def _without_builtins(app: Sphinx, document: nodes.document) -> None:
    """Types such as ``bytes`` would lead to fields of that name."""
    for link in list(document.findall(addnodes.pending_xref)):
        if link.get("refdomain") == "py" and hasattr(builtins, link["reftarget"]):
            link.replace_self(nodes.Text(link["reftarget"]))


def setup(app: Sphinx) -> dict[str, bool]:
    # Before autodoc does, which imports what is for type checkers alone, and so finds circles.
    for module in MODULES:
        import_module(module)
    app.connect("autodoc-process-docstring", _complete)
    app.connect("doctree-read", _without_builtins)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
