"""The process that holds a GGUF model: llama.cpp's server on loopback, alive as long as its standard input is open.

It is a process of its own and not a thread of the kernel, because llama.cpp's binding keeps the interpreter lock while
it loads or frees a model: cells, widgets and the stop button would stand still, and a crash in native code would take
the user's data with it. When the kernel ends, even by a kill, the pipe closes and this process ends at once.

Standard input, first line: `{"path", "n_ctx", "threads", "key"}`. Standard output, two lines: `{"imported"}`, or
`{"broken"}` where llama.cpp can't be; then `{"address"}`, or `{"error"}` where the model can't be loaded. llama.cpp's
own words about a failure go to standard error. Run by file path: nothing of nbagent is loaded.
"""

import importlib
import json
import os
import sys

#: llama.cpp's log level: errors only.
ERRORS = 1


def serve(settings: dict[str, object]) -> object:
    """Load the model and serve it on a free loopback port; requests must bring the key."""
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
    """Serve until standard input ends."""
    settings = json.loads(sys.stdin.readline())
    try:
        importlib.import_module("xllamacpp")
    except ImportError as exc:
        say(broken=f"{type(exc).__name__}: {exc}")
        return
    say(imported=True)
    try:
        server = serve(settings)
    except (RuntimeError, OSError) as exc:
        say(error=f"{type(exc).__name__}: {exc}")
        return  # the usual end of a process lets llama.cpp's thread write its log to the end
    try:
        say(address=server.listening_address)  # type: ignore[attr-defined]
        sys.stdin.read()
    finally:  # also where the kernel ended while the model was loading, and nobody reads the address
        os._exit(0)  # not the binding's own way out: freeing the server can hang


def say(**answer: object) -> None:
    """One line of standard output."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
