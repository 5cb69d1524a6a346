"""One kernel for all tests of a file. It first runs the file's string HELPERS, if there is one."""

import pytest
from support.kernels import Kernel


@pytest.fixture(scope="module")
def shared(request, tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.ok(getattr(request.module, "HELPERS", ""))
        yield kernel
