"""The manual: `make docs` builds it into out/docs, with every warning an error."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "Heddle"
author = "the founders of Heddle"
version = release = installed("heddle-fabric")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference.generated"]
exclude_patterns = ["reference/generated.py"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.xref_missing",  # links to files of the repository, which a test of their own checks
    "misc.highlighting_failure",  # CSV, which has no colours
]
html_theme = "furo"
html_title = f"Heddle {version}"
html_static_path = ["static"]
html_css_files = ["pictures.css"]
html_copy_source = False
man_pages = [("reference/commands", "plan", "plan, route, prove and price the network of an AI cluster", author, 1)]
autodoc_typehints = "none"  # numpydoc sections say the types
smartquotes = False
