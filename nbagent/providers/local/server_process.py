"""The process that serves a GGUF model with llama.cpp on loopback, as long as its standard input is open.

The server is not a thread of the kernel. llama.cpp's binding holds the interpreter lock while it loads or frees a
model, so a thread would freeze cells, widgets and the stop button. A crash in native code would also end the kernel and
lose the user's data. When the kernel ends, even if it is killed, the pipe closes and this process ends at once.

It reads one line of JSON from standard input, `{"path", "name", "n_ctx", "threads", "key"}`, and writes the server's
address to standard output when the model is loaded. If loading fails, it writes the reason to standard error and ends.
`server.py` runs this file by its path, so nbagent is not imported here.
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
    finally:  # also if the kernel ended during loading, and nobody reads the address
        os._exit(0)  # without freeing the server, which can hang


if __name__ == "__main__":
    main()
