"""Kernels for the notebooks of these tests: forks, under the name `tested`."""

import pytest
from support.kernels import write_spec


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jupyter")
    write_spec(folder)
    return folder


@pytest.fixture(autouse=True)
def tested_kernel(kernels, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(kernels))
