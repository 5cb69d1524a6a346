"""The process that holds a GGUF model: llama.cpp's server on loopback. It lives as long as its standard input is open.

It is a separate process, not a thread of the kernel, because llama.cpp's binding holds the interpreter lock while it
loads or frees a model: cells, widgets and the stop button would freeze, and a crash in native code would take the
user's data with it. When the kernel ends, even by a kill, the pipe closes and this process ends at once.

It reads one line from standard input: `{"path", "name", "n_ctx", "threads", "key"}`. It writes two lines to standard
output: `{"imported": true}` or `{"broken": reason}` if llama.cpp can't be imported; then `{"address": url}` or
`{"error": reason}` if the model can't be loaded. llama.cpp logs the details to standard error. `server.py` runs this
file by its path, so nothing of nbagent is loaded here.
"""

import importlib
import json
import os
import sys

#: llama.cpp's log level for errors only.
ERRORS = 1


def start_server(settings: dict[str, object]) -> object:
    """Load the model and serve it on a free loopback port; requests must carry the key."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.n_ctx = settings["n_ctx"]
    params.n_parallel = 1
    params.cpuparams.n_threads = settings["threads"]
    params.api_keys = [settings["key"]]
    params.use_jinja = True
    params.warmup = False
    params.ui = False
    params.verbosity = ERRORS
    return xllamacpp.Server(params)


def main() -> None:
    """Serve the model until standard input ends."""
    settings = json.loads(sys.stdin.readline())
    try:
        importlib.import_module("xllamacpp")
    except ImportError as exc:
        report(broken=f"{type(exc).__name__}: {exc}")
        return
    report(imported=True)
    try:
        server = start_server(settings)
    except (RuntimeError, OSError) as exc:
        report(error=f"{type(exc).__name__}: {exc}")
        return  # a normal exit lets llama.cpp's thread finish writing its log
    try:
        report(address=server.listening_address)  # type: ignore[attr-defined]  # its types lack it
        sys.stdin.read()
    finally:  # also if the kernel ended while the model was loading, so that nobody reads the address
        os._exit(0)  # skips freeing the server, which can hang


def report(**facts: object) -> None:
    """Write one line of JSON to standard output."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
