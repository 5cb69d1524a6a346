"""Messages if nbagent is upgraded while a kernel runs, and if IPython is too old."""

import re
import shutil
from pathlib import Path

import pytest
from support.kernels import Kernel

import nbagent

pytestmark = pytest.mark.kernel

RESTART = "nbagent 99.0 was installed while 98.0 was running. Restart the kernel to use it."


@pytest.fixture
def installed(tmp_path):
    """A folder with a copy of nbagent as version 98.0."""
    package = tmp_path / "installed" / "nbagent"
    shutil.copytree(Path(nbagent.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    set_version(package, "98.0")
    return package


def set_version(package, version):
    module = package / "__init__.py"
    module.write_text(
        re.sub(r'(?m)^__version__ = ".*"', f'__version__ = "{version}"', module.read_text("utf-8")), "utf-8"
    )


def rename(package, name):
    """Rename a function wherever it is used, as another version may."""
    for module in package.rglob("*.py"):
        module.write_text(re.sub(rf"\b{name}\b", f"{name}_now", module.read_text("utf-8")), "utf-8")


@pytest.mark.full
def test_an_upgrade_below_a_running_kernel_asks_for_a_restart(installed, tmp_path):
    with Kernel(tmp_path, env={"PYTHONPATH": str(installed.parent)}) as kernel:
        assert kernel.value("nbagent.__version__, nbagent.__file__") == ("98.0", str(installed / "__init__.py"))
        rename(installed, "is_watched")
        set_version(installed, "99.0")
        kernel.ok("agent = Agent(ScriptedProvider(['still here']))")
        assert "still here" in kernel.ok("%%agent\nhello").text  # loaded code still works

        by_name = kernel.run("nbagent.ChatPanel(agent)")
        assert (by_name.error, by_name.reply["content"]["evalue"]) == ("ImportError", RESTART)

        by_magic = kernel.run("%agent panel")
        assert (by_magic.error, by_magic.stderr) == ("ImportError", RESTART + "\n")

        for attempt in ("%reload_ext nbagent", "%load_ext nbagent"):
            again = kernel.run(attempt)
            assert (again.error, again.stderr) == ("UsageError", f"UsageError: {RESTART}\n"), attempt

    with Kernel(tmp_path / "restarted", env={"PYTHONPATH": str(installed.parent)}) as kernel:
        assert kernel.value("nbagent.__version__") == "99.0"
        kernel.ok("nbagent.ChatPanel(agent)")


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
