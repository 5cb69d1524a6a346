"""Leaves secrets out of files: recordings, and conversations that are kept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from nbagent.providers.http.redaction import is_telling, mask_secret
from nbagent.providers.http.spellings import may_be_words


def names_of_secrets(secrets: Iterable[str]) -> dict[str, str]:
    """These secrets and those of the environment, long ones first, and the names that replace them in files."""
    names = {value: name for name, value in os.environ.items() if is_telling(name) and not os.path.exists(value)}
    names |= {value: names.get(value, "API_KEY") for value in secrets}
    return {secret: names[secret] for secret in sorted(names, key=len, reverse=True)}


def without_secrets(text: str, names: Mapping[str, str]) -> str:
    """The text with names instead of secrets, but for words; `names` has the name of each secret, long ones first."""
    for secret, name in names.items():
        if not may_be_words(secret):
            text = mask_secret(text, secret, f"${name}")
    return text
