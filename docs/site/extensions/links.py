"""Links to files that are no pages: to the repository at KAFKA_SIDECAR_URL, and their text alone without it."""

from __future__ import annotations

import os
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.logging import getLogger

from extensions.navigation import PAGE_OF_FOLDER

REPOSITORY = os.environ.get("KAFKA_SIDECAR_URL", "").rstrip("/")
LOG = getLogger(__name__)


class LinksToFiles(SphinxTransform):  # type: ignore[misc]  # Sphinx is not there for type checkers
    """Replaces what MyST makes of links to sources (downloads) and to folders (names that nothing has)."""

    default_priority = 5

    def apply(self) -> None:
        root, page = Path(self.app.srcdir), Path(self.env.doc2path(self.env.docname))
        for node in list(self.document.findall(addnodes.download_reference)):
            self._lead(node, (page.parent / node["reftarget"].partition("#")[0]).resolve(), root)
        for node in list(self.document.findall(addnodes.pending_xref)):
            target = node["reftarget"]
            if node.get("reftype") == "myst" and node.get("refdomain") is None and "/" in target:
                self._lead(node, (page.parent / target.partition("#")[0]).resolve(), root)

    def _lead(self, node: nodes.Element, target: Path, root: Path) -> None:
        if not target.is_relative_to(root) or not target.exists():
            LOG.warning("leads nowhere: %s", node["reftarget"], location=node)
            return
        path = target.relative_to(root).as_posix() + ("/" if target.is_dir() else "")
        if path in PAGE_OF_FOLDER:
            name = PAGE_OF_FOLDER[path].removesuffix(".md")
            page = addnodes.pending_xref(refdomain="std", reftype="doc", reftarget=f"/{name}", refexplicit=True)
            page["refdoc"] = self.env.docname
            node.replace_self(_around(page, node))
        elif REPOSITORY:
            kind = "tree" if target.is_dir() else "blob"
            link = nodes.reference(refuri=f"{REPOSITORY}/{kind}/main/{path.rstrip('/')}", internal=False)
            node.replace_self(_around(link, node))
        else:
            node.replace_self(node.children)


def _around(outer: nodes.Element, node: nodes.Element) -> nodes.Element:
    outer.extend(node.children)
    return outer


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(LinksToFiles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
