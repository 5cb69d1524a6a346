"""How Sphinx builds the documentation: `make docs`."""

import shutil
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "nbagent"
author = "The nbagent developers"
copyright = author  # noqa: A001 (Sphinx's name)
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]

# The tutorials are the notebooks, as they were saved, and their pictures: Sphinx reads sources below its folder only.
for old in (HERE / "tutorials").glob("*.ipynb"):
    old.unlink()
for notebook in (ROOT / "notebooks").glob("*.ipynb"):
    shutil.copy(notebook, HERE / "tutorials")
shutil.copytree(ROOT / "notebooks" / "images", HERE / "tutorials" / "images", dirs_exist_ok=True)

extensions = [
    "agent_cells",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]
highlight_language = "question"  # of a block without a language

nb_execution_mode = "off"
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Docstrings are written to be read in a notebook: single backticks are code.
default_role = "literal"
toc_object_entries_show_parents = "hide"
autosummary_ignore_module_all = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # of ipywidgets, by what overrides it
autodoc_preserve_defaults = True
autodoc_default_options = {
    "members": True,
    # what these bring is not ours
    "inherited-members": "Box,Enum,Exception,Mapping,VBox,Widget,dict,list,tuple",
}
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = f"nbagent {release}"
html_static_path = ["_static"]
html_css_files = ["nbagent.css"]
html_sidebars = {"index": [], "start": []}
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "nbagent"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"  # outputs need no button
