"""The package's own skills, each a folder with `SKILL.md`, its Python file, and `skill.yaml`, which names it.

`SkillHost(builtin=True)` offers them.
"""
