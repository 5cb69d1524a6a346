"""For nbval: kernels are reached through files, since another worker's kernel could take a free port first."""

from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

import nbval.kernel
from jupyter_client.manager import KernelManager

sockets = TemporaryDirectory(prefix="kernels")
numbers = count()


def through_files(**options: Any) -> KernelManager:
    """What nbval uses in place of `KernelManager`."""
    return KernelManager(transport="ipc", ip=f"{sockets.name}/{next(numbers)}", **options)


nbval.kernel.KernelManager = through_files
