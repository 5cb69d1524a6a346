"""nbagent's own skills, which `SkillHost(builtin=True)` offers.

Each folder has a `SKILL.md`, a Python file, and a `skill.yaml` that names the file.
"""
