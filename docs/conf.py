"""The Sphinx configuration of the documentation, which `make docs` builds."""

import shutil
import subprocess
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

# The web page of the repository that this clone comes from, if there is one.
_git = ["git", "-C", str(ROOT), "config", "--get", "remote.origin.url"]
_origin = subprocess.run(_git, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
repository = _origin.removesuffix(".git") if _origin.startswith("https://") else ""

# The tutorials are the saved notebooks and their pictures, copied because Sphinx reads only its own folder.
for old in (HERE / "tutorials").glob("*.ipynb"):
    old.unlink()
for notebook in (ROOT / "notebooks").glob("*.ipynb"):
    shutil.copy(notebook, HERE / "tutorials")
shutil.copytree(ROOT / "notebooks" / "images", HERE / "tutorials" / "images", dirs_exist_ok=True)

extensions = [
    "agent_cells",
    "chinese",
    "jupyterlite_sphinx",
    "llms",
    "myst_nb",
    "names",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "_contents", "try/*.ipynb"]
highlight_language = "prompt"  # for blocks without a language

nb_execution_mode = "off"
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3

# JupyterLite, for `try.md`: a folder with its notebook and data, and a wheel of this code.
jupyterlite_dir = str(HERE / "_build/lite")
jupyterlite_contents = ["try"]
shutil.copy(ROOT / "notebooks/data/penguins.csv", HERE / "try")
jupyterlite_bind_ipynb_suffix = False
wheels = HERE / "_build/lite/pypi"
shutil.rmtree(wheels, ignore_errors=True)
pip_wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
subprocess.run([*pip_wheel, "-w", wheels, ROOT], check=True)  # noqa: S603 (our own code)

# Docstrings are written for notebooks, so single backticks mark code.
default_role = "literal"
toc_object_entries_show_parents = "hide"
autosummary_ignore_module_all = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # else overriding methods would repeat ipywidgets' docstrings
autodoc_preserve_defaults = True
autodoc_type_aliases = {"MessageInput": "MessageInput"}
autodoc_default_options = {
    "members": True,
    # the members of these classes are not ours, or have their own page
    "inherited-members": "Agent,AnyWidget,Box,CoreWidget,DOMWidget,Enum,Exception,HasDescriptors,HasTraits,LLMProvider,"
    "LoggingHasTraits,Mapping,Toolset,VBox,Widget,dict,list,tuple",
}
napoleon_numpy_docstring = False

# For language models (`_extensions/llms.py`).
llms_summary = (
    "A Jupyter-centric agent toolkit in Python: `%%agent` cells, a chat panel, an HTTP server and plain Python share "
    "one agent loop; functions of the notebook are tools; every step is a row in a DataFrame."
)
llms_left_out = ("reference/changelog",)

html_theme = "pydata_sphinx_theme"
html_title = f"nbagent {release}"
html_static_path = ["_static"]
html_css_files = ["nbagent.css"]
html_search_scorer = str(HERE / "_static/scorer.js")
html_sidebars = {"index": [], "start": [], "try": []}
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_search_language = "en-zh"
html_theme_options = {
    "logo": {"text": f"nbagent {release}"},
    "icon_links": [{"name": "Repository", "url": repository, "icon": "fa-solid fa-code-branch"}] if repository else [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"  # no button on outputs


def _without_foreign_styles(app, page, template, context, doctree):
    """Omit the font that JupyterLite's extension would load from another host on every page."""
    context["css_files"] = [style for style in context["css_files"] if "://" not in str(style.filename)]


def setup(app):
    """Register the function that Sphinx calls for each page."""
    app.connect("html-page-context", _without_foreign_styles)
