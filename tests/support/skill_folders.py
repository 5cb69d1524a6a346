"""Folders of skills, as somebody could have written them."""

from pathlib import Path

ENTRY = '''
from pydantic import BaseModel, Field

class Input(BaseModel):
    numbers: list[float] = Field(description="The numbers", min_length=1)

class Output(BaseModel):
    mean: float

def run(input: Input) -> Output:
    """The mean of numbers."""
    return Output(mean=sum(input.numbers) / len(input.numbers))
'''


def write_skill(folder: Path, name: str, description: str = "Does it.", body: str = "# Do it", **files: str) -> Path:
    """A skill. `files` are texts by name, with `__` for a slash and `_dot_` for a dot."""
    skill = folder / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n", "utf-8")
    for file, text in files.items():
        path = skill / file.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return skill


def write_executable(folder: Path, name: str = "average", entry: str = ENTRY, more: str = "") -> Path:
    """A skill with a `skill.py`, and with a `skill.yaml` if there is `more` to say."""
    files = {"skill_dot_yaml": f'id: {name}\nentry: "skill.py:run"\n{more}\n'} if more else {}
    return write_skill(folder, name, skill_dot_py=entry, **files)
