"""A provider's address and credentials.

If neither an address nor a region was chosen, the key decides which address is used, since each of a provider's sites
refuses the others' keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbagent.errors import AuthenticationError, ConfigurationError
from nbagent.providers.http.address import checked_address, without_credentials
from nbagent.providers.http.redaction import Redactor, is_secret_name, secrets_in
from nbagent.providers.provider_facts import ProviderFacts

if TYPE_CHECKING:
    from pydantic import SecretStr


class Access:
    """The address, key and headers from the arguments of `HTTPProvider`.

    Raises `ConfigurationError` if two arguments contradict each other.

    - `address`: the chosen base URL, without user name or password; empty if the key decides
    - `key`: the key passed as an argument, or None
    - `headers`: sent with every request
    """

    def __init__(
        self,
        facts: ProviderFacts,
        api_key: str | SecretStr | None,
        base_url: str | None,
        region: str | None,
        headers: Mapping[str, str] | None,
        client: Any,
    ) -> None:
        if base_url and region:
            raise ConfigurationError("base_url, region: both set the server's address. Pass only one of them.")
        chosen = base_url or facts.chosen_address(region) or facts.base_url
        self.address, login = without_credentials(checked_address(chosen))
        self.key = _secret(api_key)
        self.headers = {**login, **(headers or {})}
        #: Whether `base_url` contains a user name and a password, which replace a key.
        self._has_login = bool(login)
        if login and (self.key or any(name.lower() == "authorization" for name in headers or ())):
            raise ConfigurationError(
                "base_url: it contains a user name and a password, and you also passed api_key or an Authorization "
                "header. Only one of them can be sent: omit one."
            )
        self._is_given = self.key is not None
        self._facts, self._client = facts, client

    @property
    def base_url(self) -> str:
        """The current base URL."""
        if self.address:
            return self.address
        key = self.known_key()
        return self._facts.address_of(key.get_secret_value() if key else None)

    @property
    def secrets(self) -> list[str]:
        """The keys, and the values of headers whose names suggest a secret."""
        of_client = getattr(self._client, "api_key", None)
        named = [secret for name, value in self.headers.items() for secret in secrets_in(name, value)]
        found = (self.key, self._facts.api_key(self.address), of_client if isinstance(of_client, str) else None)
        return [secret.get_secret_value() for secret in map(_secret, (*found, *named)) if secret]

    def redactor(self, url: str = "", headers: Mapping[str, str] | None = None) -> Redactor:
        """A redactor for these secrets and for those in a request's `url` and `headers`."""
        return Redactor(self.secrets, self._facts.key_variable(self.address), url, headers)

    def known_key(self) -> SecretStr | None:
        """The key that was passed, or else the one found for this address. None if there is none, or if the address
        contains a login.
        """
        return None if self._has_login else self.key or _secret(self._facts.api_key(self.address))

    def needed_key(self) -> SecretStr | None:
        """The key for a request. Raises `AuthenticationError` if the provider needs one and there is none."""
        secret = self.known_key()
        if secret is None and not (self._facts.keyless or self._has_login or self._client is not None):
            variables = " or ".join(self._facts.key_vars_at(self.address))
            raise AuthenticationError(
                f"there is no API key: {variables} is neither set nor in a .env file",
                provider=self._facts.name,
                may_fall_back=True,
            )
        if secret and not re.fullmatch(r"[!-~]+", secret.get_secret_value()):
            raise AuthenticationError(
                "the API key contains whitespace or non-ASCII characters", provider=self._facts.name
            )
        return secret

    @property
    def is_portable(self) -> bool:
        """Whether another process can create this provider from its settings, looking up the key itself."""
        is_secret = self._has_login or self._is_given or any(map(is_secret_name, self.headers))
        return self._client is None and not is_secret

    def check_portable(self) -> None:
        """Raise `ConfigurationError` for settings that can't be sent to another process."""
        if not self.is_portable:
            raise ConfigurationError(
                "Your own client, or a key in api_key, base_url or headers, can't be sent to another process. Set "
                f"{self._facts.key_variable(self.address)} in the other process's environment, and omit the key here."
            )


def _secret(value: str | SecretStr | None) -> SecretStr | None:
    from pydantic import SecretStr

    text = value.get_secret_value() if isinstance(value, SecretStr) else value or ""
    return SecretStr(text.strip()) if text.strip() else None
