"""What may be the path of a note."""

import pytest

from nbagent import Memory
from nbagent.errors import ConfigurationError


def test_paths_of_notes(tmp_path):
    memory = Memory(tmp_path / "memory.sqlite")
    for path, why in [
        ("preferences.md", "begin with /memories"),
        ("/memories/../../etc/passwd", "not a valid name"),
        ("/memories/．．/a", "not a valid name"),  # wide full stops
        ("/memories/.hidden", "not a valid name"),
        ("/memories/%2e%2e%2fa", "%-escapes"),
        ("/memories/gnp\u202efdp", "invisible"),
    ]:
        with pytest.raises(ConfigurationError, match=why):
            memory.run("create", path=path, file_text="x")
    for path in ("/memories/our team/Ü-1 (old).md", "/memories/偏好.md", "/memories/Café"):
        memory.run("create", path=path, file_text="x")
    with pytest.raises(ConfigurationError, match="a note /memories/Café already"):
        memory.run("create", path="/memories/CAFE\u0301", file_text="looks the same")
