"""Sphinx's settings for the site of the documentation: `make docs`. Pages are the Markdown files of the repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SITE = Path(__file__).parent
ROOT = SITE.parents[1]
sys.path.insert(0, str(SITE))

project = "kafka-sidecar"
author = "The kafka-sidecar authors"
version = release = re.findall(r'__version__ = "(.+)"', (ROOT / "src/kafka_sidecar/__init__.py").read_text())[0]
language = "en"

# The source folder is the root, so that a page's links are the same here and in the repository.
root_doc = "README"
source_suffix = {".md": "markdown"}
include_patterns = [
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md",
    "docs/**.md", "bench/README.md", "helm/kafka-sidecar/README.md",
]  # fmt: skip
exclude_patterns = [".*", "build", "dist", "src", "tests", "**/*.egg-info", "**/__pycache__"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "extensions.navigation",
    "extensions.links",
    "extensions.diagrams",
    "extensions.api",
]
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["mermaid"]
nitpicky = True
# Types that have no page here, and names that docstrings mention beside the interface.
nitpick_ignore_regex = [
    ("py:class", r"(collections\.abc|pathlib|contextlib|annotated_types|pydantic_core)\..+"),
    ("py:class", r"(.+\.)?[A-Z]"),
    (
        "py:class",
        r"kafka_sidecar\.(audit\.counters|interceptors\.(consuming|producing)|policies\.plans|plugins\.values|proxy\.config\.sasl)\..+",
    ),
    ("py:class", "Journal|array"),
    ("py:exc", r"CodecError|TruncatedError|FailClosedError|PolicyFailedError|ResolveRequired"),
]
suppress_warnings = ["misc.highlighting_failure"]  # messages and grammars that are shown as yaml or json, with "..."
default_role = "code"

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False

html_theme = "furo"
html_title = f"kafka-sidecar {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
html_theme_options = {"navigation_with_keys": True}
