"""The kernel tools mask values that look like keys, and random-looking values with a key's name, and nothing else."""

import pandas as pd
import pytest

from nbagent.functions.secret_values import without_secrets
from nbagent.notebook.kernel_tools.kernel_tools import KernelTools

SECRET = "hunter2-A8Xk29sLq0pZ"


class Client:
    api_key: str = "hunter2-A8Xk29sLq0pZ"


VALUES = {
    "db_password": SECRET,
    "nested": ("ann", "token", {"password": SECRET}),
    "headers": {"Authorization": f"Bearer {SECRET}", "Accept": "text/plain"},
    "environment": {"MY_SERVICE_API_KEY": SECRET, "HOME": "/home/ann"},
    "url": f"postgresql://ann:{SECRET}@host:5432/db",
    "Client": Client,
    "source": f'password: str = "{SECRET}"\nuser = "ann"',
    "provider": {"x": "sk-proj-A8Xk29sLq0pZA8Xk29sLq0pZhunter2"},
    "private": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----".replace("-A", "A"),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_tool_shows_a_secret(name):
    tools = KernelTools({name: VALUES[name]})
    shown = f"{tools.list_variables()}\n{tools.describe_variable(name)}"
    assert "hunter2" not in shown, shown
    assert name in shown


def test_data_that_only_sounds_secret_stays(monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "postgres")
    text = (
        '{"key": "A12", "token": "the", "tokens": 512, "max_tokens": 4096, "session": "morning", "keyboard": "qwerty", '
        '"author": "Ann Lee", "secretary": "Ada", "primary_key": "customer_id_2024", "password": "hunter2", '
        '"url": "https://example.org/a/b?page=2", "secret": "/run/secrets/token-1"} create_engine("postgresql:///")'
    )
    assert without_secrets(text) == text
    frame = pd.DataFrame({"key": ["a"], "token": ["the"], "author": ["Ann"], "password": ["hunter2"]})
    assert "hunter2" in KernelTools({"frame": frame}).peek_dataframe("frame")
