"""The package's own skills, each a folder with `SKILL.md`, `skill.yaml` and its Python file.

`SkillHost(builtin=True)` offers them.
"""
