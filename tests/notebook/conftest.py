"""Kernels: one for all tests of a file, which runs the file's string HELPERS, and kernels for notebook files."""

import pytest
from support.kernels import Kernel, write_spec


@pytest.fixture(scope="module")
def shared(request, tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.ok(getattr(request.module, "HELPERS", ""))
        yield kernel


@pytest.fixture
def tested_kernel(tmp_path_factory, monkeypatch):
    """A kernel named `tested` is installed, which starts as a fork."""
    folder = tmp_path_factory.mktemp("jupyter")
    write_spec(folder)
    monkeypatch.setenv("JUPYTER_PATH", str(folder))
