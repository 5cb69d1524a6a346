"""Proxies and certificates from the environment, with a real proxy and a real TLS server on loopback."""

import asyncio
import base64
import socket
import ssl
import sys

import pytest
import trustme
from support.loopback import Answer, Loopback, claude_said, gemini_said, said, served_by, sse

from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError, NbagentError, ProviderConnectionError
from nbagent.providers import create_provider

HI = [LLMMessage("user", "hi")]
ANSWERS = {
    "open_source": Answer(sse(said("Good."))),
    "gemini": Answer(gemini_said("Good.")),
    "openai": Answer(sse(said("Good."))),
    "claude": Answer(claude_said("Good.")),
}
BASES = {"claude": "", "gemini": "/v1beta"}
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in (*VARIABLES, *map(str.lower, VARIABLES), *CERTIFICATES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def provider(request):
    return getattr(request, "param", "open_source")


one_of_each_transport = pytest.mark.parametrize("provider", ["open_source", "openai"], indirect=True)


async def ask(provider_name, url, **options):
    """One answer from a provider that is closed afterwards."""
    base_url = url + BASES.get(provider_name, "/v1")
    provider = create_provider(
        provider_name, api_key="test-key", model="m1", base_url=base_url, max_retries=0, **options
    )
    try:
        return (await provider.chat(HI)).content
    finally:
        await provider.aclose()


class Proxy:
    """A proxy that tunnels and forwards to 127.0.0.1, whatever the host. `user` is the allowed login."""

    def __init__(self, user=None, status=None):
        self.seen = []
        self._wanted = user and f"Basic {base64.b64encode(user.encode()).decode()}"
        self._status = status

    async def __call__(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, url, _ = head.split("\r\n")[0].split(" ")
        self.seen.append(f"{method} {url}")
        if self._status or (self._wanted and f"Proxy-Authorization: {self._wanted}".lower() not in head.lower()):
            status = self._status or "407 Proxy Authentication Required"
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        port = int((url if method == "CONNECT" else url.split("/")[2]).rpartition(":")[2])
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(head.replace(url, "/" + url.split("/", 3)[3], 1).encode())
        try:
            await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))
        finally:
            far_writer.close()


async def pipe(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def certified(authority):
    """TLS for a server called provider.test, from an unknown authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("provider.test", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
async def secure(certified, provider):
    async with Loopback(certified) as server:
        server.answers = [ANSWERS[provider]]
        yield server


@pytest.fixture
def authority_file(authority, tmp_path):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return tmp_path / "ca.pem"


def at(server, host="provider.test"):
    """The address of a loopback server under another name."""
    return server.url.replace("127.0.0.1", host)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("open_source", "HTTPS_PROXY"), ("openai", "https_proxy"), ("claude", "ALL_PROXY"), ("gemini", "HTTPS_PROXY")],
    indirect=["provider"],
)
async def test_through_a_proxy_to_a_tls_server(provider, secure, authority_file, monkeypatch, variable):
    monkeypatch.setenv("SSL_CERT_FILE", str(authority_file))
    proxy = Proxy(user="ada:s3cret")
    async with served_by(proxy) as address:
        monkeypatch.setenv(variable, f"http://ada:s3cret@{address}")
        assert await ask(provider, at(secure)) == "Good."
    assert proxy.seen == [f"CONNECT {at(secure).removeprefix('https://')}"]
    assert "proxy-authorization" not in secure.requests[0].headers


@one_of_each_transport
async def test_through_a_proxy_without_tls(provider, monkeypatch):
    proxy = Proxy()
    async with served_by(proxy) as address, Loopback() as server:
        server.answers = [ANSWERS[provider]]
        monkeypatch.setenv("HTTP_PROXY", address)  # as many write it, without a scheme
        assert await ask(provider, at(server)) == "Good."
        assert len(server.requests) == 1
    assert proxy.seen[0].startswith(f"POST {at(server)}/v1")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_cannot_be_reached(provider, monkeypatch, scheme):
    monkeypatch.setenv("ALL_PROXY", "http://ada:s3cr%40t@127.0.0.1:9")
    with pytest.raises(ProviderConnectionError, match=r"the proxy http://127\.0\.0\.1:9 .* can't be reached") as caught:
        await ask(provider, f"{scheme}://provider.test:81")
    assert "s3cr" not in f"{caught.value!r} {caught.value} {vars(caught.value)}"
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("provider", "scheme", "how", "says", "retryable"),
    [
        ("open_source", "http", {"user": "ada:right"}, "requires a user.*407", False),
        ("open_source", "https", {"user": "ada:right"}, "requires a user.*407", False),
        ("open_source", "https", {"status": "502 Bad Gateway"}, "can't be reached.*502", True),
        ("openai", "https", {"status": "502 Bad Gateway"}, "can't be reached.*502", True),
    ],
    indirect=["provider"],
)
async def test_a_proxy_that_refuses(provider, monkeypatch, scheme, how, says, retryable):
    async with served_by(Proxy(**how)) as address:
        monkeypatch.setenv("ALL_PROXY", f"http://ada:wr0ng@{address}")
        with pytest.raises(ProviderConnectionError, match=f"the proxy http://{address}.*{says}") as caught:
            await ask(provider, f"{scheme}://provider.test:81")
    assert "wr0ng" not in f"{caught.value!r} {caught.value} {vars(caught.value)}"
    assert caught.value.retryable is retryable


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("gopher://ada:s3cret@proxy.test", "gopher://proxy.test"),
        ("socks5://ada:s3cret@proxy.test:1080", "socks5://proxy.test:1080.*pip install socksio"),
    ],
)
async def test_a_proxy_that_cannot_be_used(provider, monkeypatch, address, says):
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(ConfigurationError, match=says) as caught:
        await ask(provider, "https://provider.test:81")
    assert "s3cret" not in f"{caught.value!r} {caught.value}"


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("api.provider.test", "", False),
        ("api.provider.test", "provider.test", True),
        ("api.provider.test", "*.provider.test", True),
        ("apiprovider.test", "*.provider.test", False),
        ("api.provider.test", "*", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("127.0.0.1", "", True),
        ("::1", "", True),
        ("jupyter.localhost", "", True),
    ],
)
async def test_hosts_that_are_reached_without_the_proxy(host, no_proxy, direct, monkeypatch):
    def nowhere(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "nobody knows this name")

    proxy = Proxy(status="502 Bad Gateway")
    async with served_by(proxy) as address:
        monkeypatch.setenv("HTTPS_PROXY", address)
        monkeypatch.setenv("NO_PROXY", no_proxy)
        monkeypatch.setattr(socket, "getaddrinfo", nowhere)
        with pytest.raises(NbagentError):
            await ask("open_source", f"https://{f'[{host}]' if ':' in host else host}:443", timeout=0.5)
    assert bool(proxy.seen) != direct


# ------------------------------------------------------------------ certificates


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("open_source", "SSL_CERT_FILE"), ("openai", "REQUESTS_CA_BUNDLE")],
    indirect=["provider"],
)
async def test_the_users_own_certificate_authority(provider, secure, authority_file, monkeypatch, variable):
    with pytest.raises(ProviderConnectionError, match="certificate is not trusted.*SSL_CERT_FILE") as caught:
        await ask(provider, secure.url)
    assert not caught.value.retryable
    monkeypatch.setenv(variable, str(authority_file))
    assert await ask(provider, secure.url) == "Good."


@pytest.mark.parametrize("variable", CERTIFICATES)
async def test_a_variable_that_names_no_certificates(provider, monkeypatch, tmp_path, variable):
    (tmp_path / "empty.pem").write_text("no certificate")
    for name in ("nowhere",) if variable == "SSL_CERT_DIR" else ("nowhere", "empty.pem"):
        monkeypatch.setenv(variable, str(tmp_path / name))
        with pytest.raises(ConfigurationError, match=f"{variable}=.*{name}"):
            await ask(provider, "https://127.0.0.1:9")
