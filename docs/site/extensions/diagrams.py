"""Mermaid's diagrams, drawn when the site is built: readers load no script, and ask no other host for one."""

from __future__ import annotations

import re

import mmdr
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

SMALLEST_PX = 640  # to be readable; on a narrower screen its box scrolls


class Mermaid(Directive):  # type: ignore[misc]  # docutils is not there for type checkers
    """A block of the language ``mermaid``, as an SVG image in the page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        number = len(list(self.state.document.findall(nodes.raw)))
        try:
            svg = mmdr.render("\n".join(self.content)).svg()
        except Exception as error:
            raise self.error(f"not drawn: {error}") from error
        # Rules and marks have the id of the image; two images of a page would share them.
        svg = re.sub(r"\bmerman\b", f"diagram-{number}", svg)
        width = float(re.findall(r'viewBox="\S+ \S+ (\S+) ', svg)[0])
        svg = svg.replace('style="', f'style="min-width:{min(width, SMALLEST_PX):.0f}px;', 1)
        return [nodes.raw("", f'<div class="diagram">{svg}</div>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("mermaid", Mermaid)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
