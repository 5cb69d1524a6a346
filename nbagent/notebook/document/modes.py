"""The modes of an agent in a notebook, which determine what it may do without approval, as in code editors."""

from __future__ import annotations

import ast
from typing import Literal

from IPython.core.alias import default_aliases
from IPython.core.getipython import get_ipython
from IPython.core.inputtransformer2 import TransformerManager

Mode = Literal["ask", "auto-edit", "auto"]

#: Each mode's actions without approval. Deleting a cell always needs approval.
MODES: dict[Mode, str] = {
    "ask": "each change and each run asks",
    "auto-edit": "cells are added, edited and moved; runs ask",
    "auto": "cells are changed and run; shell commands ask",
}

#: Magics that start a program, in addition to the shell's aliases, such as `%ls`.
_PROGRAMS = {
    *str.split("! system sx sc script bash sh cmd perl ruby pypy python python2 python3"),
    *str.split("pip conda mamba micromamba uv"),
}


def runs_shell(source: str) -> bool:
    """Whether a cell starts a program with a magic, a `!` or an alias, according to IPython's own parser. Returns True
    if in doubt. Programs that Python code starts are not detected.

    >>> runs_shell("files = !ls"), runs_shell("print('!ls')")
    (True, False)
    """
    shell = get_ipython()
    aliases = default_aliases() if shell is None else shell.alias_manager.aliases
    transformer = TransformerManager() if shell is None else shell.input_transformer_manager
    code = transformer.transform_cell(source)
    is_line = len(code.splitlines()) == 1
    if is_line and shell is not None:
        code = shell.prefilter_manager.prefilter_lines(code)  # finds `pip install …` without a %
    in_doubt = is_line and shell is None
    return _starts_program(code, _PROGRAMS | {name for name, _ in aliases}, in_doubt=in_doubt)


def _starts_program(code: str, programs: set[str], *, in_doubt: bool) -> bool:
    """Whether code that IPython has transformed starts a program. `in_doubt` is the result if it is not Python."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return in_doubt
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        match call:
            case ast.Call(ast.Attribute(ast.Call(ast.Name("get_ipython")), "system" | "getoutput")):
                return True
            case ast.Call(ast.Attribute(ast.Call(ast.Name("get_ipython")), "run_line_magic" | "run_cell_magic")):
                texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                if len(texts) < len(call.args) or not texts or texts[0].lstrip("%") in programs:
                    return True
                # `%time !ls`: the argument of such a magic may be code
                if any("!" in text or "%" in text for text in texts[1:]) and any(map(runs_shell, texts[1:])):
                    return True
    return False
