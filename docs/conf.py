"""Sphinx configuration."""

from sb3_span import __version__

project = "sb3_span"
author = "The sb3_span developers"
copyright = f"2026, {author}"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_title = f"sb3_span {release}"
