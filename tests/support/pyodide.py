"""Pyodide, and wheels for it, as `make test-all` installs them into `.pyodide`, and the wheel of this code.

`Mirror` serves them where a page looks for them: as the CDN of Pyodide, and as PyPI.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import ssl
import subprocess
import sys
import threading
import zipfile
from collections import defaultdict
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme
import yaml
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[2]
HERE = ROOT / ".pyodide"
PYODIDE = HERE / "node_modules/pyodide"
LOCK = PYODIDE / "pyodide-lock.json"
WHEELS = HERE / "wheels"

#: What only Pyodide's own distribution has, compiled, and what stands in for it: as much as lets nbagent be installed
#: and shown. There are no tables, and no HTML is cleaned. PyYAML does without its compiled part.
STAND_INS = {
    "pandas": {},
    "jsonschema": {},
    "nh3": {"nh3.py": "def clean(page, **_):\n    return page\n"},
    "pyyaml": {f"yaml/{file.name}": file.read_text("utf-8") for file in Path(yaml.__file__).parent.glob("*.py")},
}
CDN, INDEX, FILES = "cdn.jsdelivr.net", "pypi.org", "files.pythonhosted.org"


def built_wheel(folder: Path) -> Path:
    options = ["-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "-w", folder, ROOT], check=True, timeout=600)
    (wheel,) = folder.glob("*.whl")
    return wheel


class Mirror:
    """Pyodide's CDN and PyPI, over TLS on a loopback port. `flags` send a Chromium there, and nowhere else."""

    def __enter__(self) -> Mirror:
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                found = mirror.answer(self.headers["Host"], self.path.partition("?")[0])
                self.send_response(404 if found is None else 200)
                kind, body = found or ("text/plain", b"")
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert(CDN, INDEX, FILES).configure_cert(context)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def flags(self) -> list[str]:
        here = f"127.0.0.1:{self._server.server_port}"
        rules = [*(f"MAP {host} {here}" for host in (CDN, INDEX, FILES)), "MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1"]
        return [f"--host-resolver-rules={', '.join(rules)}", "--ignore-certificate-errors"]

    def answer(self, host: str, path: str) -> tuple[str, bytes] | None:
        name = path.rstrip("/").rpartition("/")[2]
        if host == INDEX:
            files = self._listed.get(canonicalize_name(name))
            listed = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
            return ("application/vnd.pypi.simple.v1+json", json.dumps(listed).encode()) if files else None
        if name == "pyodide-lock.json":
            return "application/json", json.dumps(self._lock).encode()
        if name in self._wheels:
            return "application/octet-stream", self._wheels[name]
        kinds = {".mjs": "text/javascript", ".wasm": "application/wasm"}
        file = PYODIDE / name
        return (kinds.get(file.suffix, "application/octet-stream"), file.read_bytes()) if file.is_file() else None

    @cached_property
    def _wheels(self) -> dict[str, bytes]:
        """The wheels by name of file: those that are installed, and the stand-ins."""
        wheels = {file.name: file.read_bytes() for file in WHEELS.glob("*.whl")}
        packages = json.loads(LOCK.read_text())["packages"]
        return wheels | dict(stand_in(name, packages[name]["version"], files) for name, files in STAND_INS.items())

    @cached_property
    def _lock(self) -> dict[str, Any]:
        """Pyodide's list of its packages, with the installer only: it looks for the others at PyPI."""
        lock = json.loads(LOCK.read_text())
        (file,) = WHEELS.glob("micropip-*.whl")
        own = {"file_name": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
        lock["packages"] = {"micropip": lock["packages"]["micropip"] | own}
        return lock

    @cached_property
    def _listed(self) -> dict[str, list[dict[str, Any]]]:
        listed: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for name, content in self._wheels.items():
            hashes = {"sha256": hashlib.sha256(content).hexdigest()}
            file = {"filename": name, "url": f"https://{FILES}/{name}", "size": len(content), "hashes": hashes}
            listed[parse_wheel_filename(name)[0]].append(file)
        return listed


def stand_in(name: str, version: str, modules: dict[str, str]) -> tuple[str, bytes]:
    """The name and the content of a wheel with these files."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **modules,
    }
    digests = {path: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()) for path, text in files.items()}
    lines = [f"{path},sha256={digest.rstrip(b'=').decode()},{len(files[path])}" for path, digest in digests.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()
