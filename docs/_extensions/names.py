"""The pages of the API reference, and the links to them.

In a class, methods come before attributes. Members that only nbagent uses are omitted, as is a parameter that only
catches mistyped names. In all pages, code such as `Agent`, `agent.chat(…)` or `nbagent.record(…)` links to the
reference, once in each section.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import inspect

import nbagent

#: `nbagent.record(path)` and `Agent.chat`; lowercase names only after `nbagent.` or `@`, or if they are called.
_NAME = re.compile(r"(?P<before>nbagent\.|@)?(?P<name>[A-Za-z_]\w*)(?:\.(?P<member>\w+))?(?P<call>\(.*\)?)?", re.DOTALL)
#: The names that pages use for instances of a class.
_VALUES = {"agent": "Agent", "result": "AgentResult", "trace": "Trace", "budget": "Budget", "panel": "ChatPanel"}

#: Members that only nbagent itself uses, by class.
_INTERNAL = {
    "Agent": "bar_watchers default_note observers open_labels provider_or_spec row_agent row_settings run_call "
    "side_agent unfinished worker_factory",
    "Budget": "account",
    "Candidates": "candidates check members rate_key ready resolve secrets",
    "ChatPanel": "dock look place publish state update",
    "ContextManager": "add_input asking drop has_provider_count later messages_to_drop prepare record_usage "
    "replace_history resume split_at_current_turn take_back trimmed",
    "FunctionRegistry": "set_tools",
    "LLMMessage": "encoded opens_turn replace",
    "LLMResponse": "encoded message_content",
    "Limits": "or_else",
    "RunContext": "output",
    "SkillManifest": "check_trusted",
    "Team": "bar_watchers deps observers open_labels routes side_agent tools_off toolsets",  # as in `Agent`
    "Trace": "explorer fork is_recording observers record rows rows_with_children summary_lines",
}
#: Replaces the colon in an attribute's docstring while napoleon reads it: napoleon would read the text before it as a
#: type.
_COLON = "\ue000"


def target(code: str) -> str | None:
    """Return the full public name that a piece of code refers to, if any.

    >>> target("agent.chat(…)"), target("@tool"), target("tool")
    ('nbagent.Agent.chat', 'nbagent.tool', None)
    """
    found = _NAME.fullmatch(code)
    if found is None:
        return None
    name = found["name"]
    if name in _VALUES and found["member"]:
        return f"nbagent.{_VALUES[name]}.{found['member']}"
    if name not in nbagent.__all__ or not (name[0].isupper() or found["before"] or found["call"]):
        return None
    return ".".join(filter(None, ("nbagent", name, found["member"])))


def _link(app: Sphinx, doctree: nodes.document, page: str) -> None:
    objects, linked = app.env.get_domain("py").objects, set()
    for code in list(doctree.findall(nodes.literal)):
        known = objects.get(target(code.astext()) or "")
        if known is None or known.docname == page or isinstance(code.parent, nodes.reference | nodes.title):
            continue
        section = code.parent
        while section.parent is not None and not isinstance(section, nodes.section):
            section = section.parent
        if (id(section), known.node_id) not in linked:
            linked.add((id(section), known.node_id))
            address = f"{app.builder.get_relative_uri(page, known.docname)}#{known.node_id}"
            code.replace_self(nodes.reference("", "", code.deepcopy(), internal=True, refuri=address))


def _methods_first(app: Sphinx, doctree: nodes.document) -> None:
    for content in doctree.findall(addnodes.desc_content):
        members = [node for node in content if isinstance(node, addnodes.desc)]
        for node in members:
            if node["objtype"] in ("attribute", "property"):
                entry = content[content.index(node) - 1]
                content.remove(node)
                if isinstance(entry, addnodes.index):  # its index entry
                    content.remove(entry)
                    content.append(entry)
                content.append(node)


def _signature(app, what, name, value, options, signature, returns):
    if what == "class" and signature == "(*args, **kwargs)":  # a widget's `__new__` hides its `__init__`
        own = inspect.signature(value.__init__, bound_method=True)
        signature = inspect.stringify_signature(own, show_annotation=False)
    return (re.sub(r", \*\*unknown\b", "", signature) if signature else signature), returns


def _without_internal(app, what, name, value, skip, options):
    current = app.env.current_document.autodoc_class.rpartition(".")[2]
    return True if name in _INTERNAL.get(current, "").split() else None


def _hide_colon(app, what, name, value, options, lines):
    if what in ("attribute", "property", "data") and lines:
        lines[0] = lines[0].replace(":", _COLON)


def _show_colon(app, what, name, value, options, lines):
    lines[:] = [line.replace(_COLON, ":") for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _hide_colon, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", _show_colon, priority=600)
    app.connect("autodoc-skip-member", _without_internal)
    app.connect("doctree-read", _methods_first, priority=100)  # before the tables of contents are built
    app.connect("doctree-resolved", _link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
