"""The message if IPython is too old."""

import pytest

pytestmark = pytest.mark.kernel

OLD_IPYTHON = """
%unload_ext nbagent
import sys, IPython.core.completer as completer
for module in [name for name in sys.modules if name.startswith("nbagent.notebook.")]: del sys.modules[module]
del completer.SimpleCompletion  # as before IPython 8.6
"""


def test_an_ipython_that_is_too_old_asks_for_its_upgrade(shared):
    shared.ok(OLD_IPYTHON)
    refused = shared.run("%load_ext nbagent")
    ipython = shared.value("__import__('IPython').__version__")
    fix = "Run %pip install -U ipython ipykernel, then restart the kernel."
    assert refused.stderr == f"UsageError: nbagent can't use IPython {ipython}, which this kernel runs. {fix}\n"
