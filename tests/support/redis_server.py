"""A real Redis server for tests: in a folder of its own, reached by a socket there, and ended with the block."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

#: Nothing on the disk: tests begin with an empty server.
_OPTIONS = ("--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no")


@contextmanager
def redis_server(*options: str) -> Iterator[str]:
    """The address of a server that has started; `options` are those of `redis-server`."""
    with tempfile.TemporaryDirectory(prefix="nbagent-redis-") as folder:
        socket = f"{folder}/redis.sock"  # a path of a socket must be short, which those of pytest are not
        command = ["redis-server", *_OPTIONS, "--dir", folder, "--unixsocket", socket, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                lines = []
                for line in server.stdout:
                    lines.append(line)
                    if "eady to accept connections" in line:
                        break
                else:
                    raise RuntimeError(f"redis-server did not start:\n{''.join(lines)}")
                yield f"unix://{socket}"
            finally:
                server.terminate()
                server.communicate()
