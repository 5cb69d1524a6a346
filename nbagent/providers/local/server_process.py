"""The process of a GGUF model: llama.cpp's server on loopback. It lives as long as its standard input is open.

It is a separate process, not a thread of the kernel, because llama.cpp's binding holds the interpreter lock while it
loads or frees a model: cells, widgets and the stop button would freeze, and a crash in native code would take the
user's data with it. When the kernel ends, even by a kill, the pipe closes and this process ends at once.

It reads one line of JSON from standard input: `{"path", "name", "n_ctx", "threads", "key"}`, and writes the server's
address to standard output when the model is loaded. If that fails, it ends; why is in standard error. `server.py` runs
this file by its path, so nothing of nbagent is loaded here.
"""

import json
import os
import sys

#: llama.cpp's log level for errors only.
ERRORS = 1


def main() -> None:
    """Serve the model on a free port until standard input ends. Requests must carry the key."""
    settings = json.loads(sys.stdin.readline())
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.n_ctx = settings["n_ctx"]
    params.n_parallel = 1
    params.cpuparams.n_threads = settings["threads"]
    params.api_keys = [settings["key"]]
    params.use_jinja = True
    params.ui = False
    params.verbosity = ERRORS
    server = xllamacpp.Server(params)
    try:
        sys.stdout.write(f"{server.listening_address}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:  # also if the kernel ended while the model was loading, so that nobody reads the address
        os._exit(0)  # skips freeing the server, which can hang


if __name__ == "__main__":
    main()
