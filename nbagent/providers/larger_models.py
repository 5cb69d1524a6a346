"""Larger models for `nbagent pull NAME`: their files, requirements and download.

Each file is a fixed revision on Hugging Face, and several projects, such as LocalAI's gallery, publish its SHA-256.
"""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent.errors import ConfigurationError, LocalModelError
from nbagent.text import shortened

#: Hugging Face, or the mirror named in Hugging Face's own environment variable.
HOST, HOST_VARIABLE = "https://huggingface.co", "HF_ENDPOINT"
#: The longest wait for more data, in seconds.
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class LargerModel:
    """A GGUF file whose chat template supports tools."""

    name: str
    repository: str
    revision: str
    file: str
    gguf_bytes: int
    gguf_sha256: str
    #: Memory needed for a short conversation.
    memory_gb: int
    licence: str = "Apache-2.0"

    @property
    def url(self) -> str:
        """The file's address."""
        host = os.environ.get(HOST_VARIABLE) or HOST
        return f"{host.rstrip('/')}/{self.repository}/resolve/{self.revision}/{self.file}"

    @property
    def size(self) -> str:
        """The file's size."""
        return f"{self.gguf_bytes / 1e9:.1f} GB"

    def missing(self) -> ConfigurationError:
        """The error for a model that was not pulled."""
        return ConfigurationError(
            f"model: {self.name} is not on this machine. Run `nbagent pull {self.name}` ({self.size}; it needs "
            f"{self.memory_gb} GB of memory)."
        )

    def fetch(self, part: Path, bar: Any) -> None:
        """Download the model to `part`, or continue an earlier download. `bar` is a tqdm bar.

        Raises `LocalModelError` or `OSError`, and keeps the partial file.
        """
        import httpx2

        from nbagent.providers.http.address import without_password
        from nbagent.providers.http.client import tls_context

        done = part.stat().st_size if part.exists() else 0
        if done >= self.gguf_bytes:
            return
        if shutil.disk_usage(part.parent).free < self.gguf_bytes - done:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        again = f"Run `nbagent pull {self.name}` again: it continues where it stopped."
        headers = {"Range": f"bytes={done}-", "Accept-Encoding": "identity"}
        try:
            with (
                httpx2.Client(verify=tls_context(), follow_redirects=True, timeout=TIMEOUT_S) as client,
                client.stream("GET", self.url, headers=headers) as response,
                part.open("ab") as file,
            ):
                response.raise_for_status()
                if "html" in response.headers.get("Content-Type", ""):  # a login page must not replace the part
                    page = f"{without_password(str(response.url))} sent a web page instead of {self.name}"
                    raise LocalModelError(f"{page}. Does this network require a login? {again}")
                if response.status_code != 206:  # the whole file
                    done = file.truncate(0)
                bar.initial = bar.n = done
                for chunk in response.iter_raw():
                    done += file.write(chunk)
                    bar.update(len(chunk))
                    if done > self.gguf_bytes:  # not our file: its hash will be wrong
                        return
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            reason = shortened(str(exc), 200) or type(exc).__name__
            if isinstance(exc, httpx2.HTTPStatusError):
                reason = f"status {exc.response.status_code}"
            raise LocalModelError(
                f"{self.name} could not be downloaded from {without_password(self.url)} ({reason}). {again} If this "
                f"machine can't reach the host, set {HOST_VARIABLE} to a mirror, or use your own file: "
                'create_provider("local", model="x.gguf").'
            ) from None


LARGER_MODELS = {
    each.name: each
    for each in (
        LargerModel(
            "qwen3.5-0.8b",
            "bartowski/Qwen_Qwen3.5-0.8B-GGUF",
            "f36b1ea49a332ede8fe5f389bbf5b3575ef71f48",
            "Qwen_Qwen3.5-0.8B-Q4_K_M.gguf",
            579_615_840,
            "fb044e93939a70469c905781334f5de1e6c8b608ced6cbc8c9249bd4127d9526",
            memory_gb=1,
        ),
        LargerModel(
            "qwen3.5-2b",
            "bartowski/Qwen_Qwen3.5-2B-GGUF",
            "7d26695454df6de5fbcce2e58681e62dae06ce43",
            "Qwen_Qwen3.5-2B-Q4_K_M.gguf",
            1_396_198_496,
            "57a1085840f497d764a7fc5d346922dbde961efb54cc792ea81d694fd846a1d8",
            memory_gb=2,
        ),
        LargerModel(
            "qwen3.5-4b",
            "bartowski/Qwen_Qwen3.5-4B-GGUF",
            "4168f45a16a1290d65a4ec0fa312ae917a4c15d6",
            "Qwen_Qwen3.5-4B-Q4_K_M.gguf",
            3_013_027_808,
            "13c16f426047e2de38cd075bdade4a7bcbc8c774384876f677740cda65f8a983",
            memory_gb=4,
        ),
        LargerModel(
            "qwen3.5-9b",
            "unsloth/Qwen3.5-9B-GGUF",
            "3885219b6810b007914f3a7950a8d1b469d598a5",
            "Qwen3.5-9B-Q4_K_M.gguf",
            5_680_522_464,
            "03b74727a860a56338e042c4420bb3f04b2fec5734175f4cb9fa853daf52b7e8",
            memory_gb=8,
        ),
        LargerModel(
            "gpt-oss-20b",
            "ggml-org/gpt-oss-20b-GGUF",
            "e1dc459feff949ff451ce107337a2026daa80df8",
            "gpt-oss-20b-mxfp4.gguf",
            12_109_566_560,
            "be37a636aca0fc1aae0d32325f82f6b4d21495f06823b5fbc1898ae0303e9935",
            memory_gb=16,
        ),
    )
}
