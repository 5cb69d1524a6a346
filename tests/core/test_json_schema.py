"""`jsonschema` is imported quickly, and checks what it checks without us."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

CODE = """
import sys
from nbagent.core.json_schema import jsonschema
assert "rfc3987_syntax" not in sys.modules
checker = jsonschema.FormatChecker()
print(checker.conforms("http://é.example/x", "iri"), checker.conforms("<a b>", "iri"), "rfc3987_syntax" in sys.modules)
"""


@pytest.mark.skipif(find_spec("rfc3987_syntax") is None, reason="JupyterLab, which brings it, is not installed")
def test_parsers_are_made_when_they_are_needed():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "True False True\n"
