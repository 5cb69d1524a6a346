"""`%agent skills`: the agent's skills as a table, with their problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from nbagent.agent.agent import Agent
from nbagent.core.render import markdown as render
from nbagent.notebook.panel.skill_mentions import hosts_of
from nbagent.skills.host import SkillHost

if TYPE_CHECKING:
    import pandas as pd

SKILLS_USAGE = "[use [FOLDER …] | trust | distrust | reload]"
_NO_SKILLS = "No skills: %agent skills use finds the skills of the project, the user and nbagent; or name folders."
_COLUMNS = ("skill", "state", "kind", "scope", "description")


def skills(shell: Any, agent: Agent, words: Sequence[str]) -> SkillTable:
    """Add skills, trust or distrust the project's skills, or reload all skills. Returns all skills as a table."""
    match words:
        case []:
            pass
        case ["use", *folders]:
            agent.use(SkillHost(*folders, builtin=not folders, discover=not folders))
        case ["trust" | "distrust" as answer]:
            for host in hosts_of(agent):
                host.trust(answer == "trust")
        case ["reload"]:
            for host in hosts_of(agent):
                host.reload()
        case _:
            raise UsageError(f"%agent skills {SKILLS_USAGE}")
    return skill_table(agent)


@dataclass(frozen=True, eq=False)
class SkillTable:
    """An agent's skills and their problems as a table for a cell. `frame` and `diagnostics` have the data."""

    frame: pd.DataFrame
    diagnostics: pd.DataFrame

    def __repr__(self) -> str:
        if self.frame.empty and self.diagnostics.empty:
            return _NO_SKILLS
        shown = self.frame[list(_COLUMNS)].to_string(index=False, max_colwidth=80)
        return render.printable("\n".join([shown, *self._problems()]))

    def _repr_html_(self) -> str:
        if self.frame.empty and self.diagnostics.empty:
            return str(render.output_html(render.note_html(_NO_SKILLS)))
        *names, _ = _COLUMNS  # the description is below the name
        head = "".join(f"<th>{name}</th>" for name in names)
        rows = "".join(map(_row_html, self.frame[list(_COLUMNS)].itertuples(index=False)))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        notes = "".join(render.note_html(problem) for problem in self._problems())
        return str(render.output_html(table + notes, formulas=False))

    def _problems(self) -> list[str]:
        found = self.diagnostics.to_dict("records")
        places = [each["file"] if each["line"] != each["line"] else f"{each['file']}:{each['line']}" for each in found]
        return [f"{each['level']}: {place}: {each['message']}" for each, place in zip(found, places, strict=True)]


def _row_html(row: tuple[Any, ...]) -> str:
    skill, *others, description = (render.escape(str(value)) for value in row)
    cells = "".join(f"<td>{value}</td>" for value in others)
    return f'<tr><td>{skill}<div class="nbagent-quiet">{description}</div></td>{cells}</tr>'


def skill_table(agent: Agent) -> SkillTable:
    """The skills of all of an agent's skill hosts, as a table."""
    import pandas as pd

    hosts = hosts_of(agent) or [SkillHost(discover=False)]
    frames = [host.table for host in hosts], [host.diagnostics for host in hosts]
    return SkillTable(*(pd.concat(each, ignore_index=True) for each in frames))
