"""One kernel for the tests of a file; its string HELPERS, if there is one, has run there."""

import pytest
from support.kernels import Kernel


@pytest.fixture(scope="module")
def shared(request, tmp_path_factory):
    with Kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.ok(getattr(request.module, "HELPERS", ""))
        yield kernel
