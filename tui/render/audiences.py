"""This module renders who gets a fact: the agents that can be chosen, the folder, and all of it in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from store.memory.rules import CODEX_MEMORIES
from store.memory.targets import AUDIENCES
from store.model.memory import Audience
from store.sources import source_label
from store.text.sanitize import one_line
from tui.render import glyphs
from tui.render.session_lines import abbreviate_home
from tui.render.styles import FAINT, MUTED, STRONG, StyledText, agent_badge, build_content

_ALL_AGENTS = "All agents"
_NO_BADGE = "**"
"""Is the mark of all agents."""


def list_agents(folder: str) -> list[str]:
    """Return the agents that can get a fact in a folder, or everywhere. An empty name is all of them."""
    return ["", *(agent for agent in AUDIENCES if not folder or agent != CODEX_MEMORIES)]


def name_agent(agent: str) -> str:
    return "Codex, for its memories" if agent == CODEX_MEMORIES else source_label(agent) if agent else _ALL_AGENTS


def describe_audience(audience: Audience) -> str:
    where = f"in {abbreviate_home(audience.folder)}" if audience.folder else "everywhere"
    return f"{name_agent(audience.agent)} {where}"


def render_agent_mark(agent: str) -> StyledText:
    """Render the two letters of an agent, `**` for all agents."""
    if not agent:
        return _NO_BADGE, MUTED
    badge = agent_badge("codex" if agent == CODEX_MEMORIES else agent)
    return badge.letters, badge.style


def render_audience(audience: Audience, width: int, *, is_chosen: bool) -> Content:
    """Render `◉ cc Claude Code`."""
    mark = (f"{glyphs.CHOSEN} ", "$text-accent") if is_chosen else (f"{glyphs.NOT_CHOSEN} ", FAINT)
    name = (f" {name_agent(audience.agent)}", STRONG if is_chosen else "")
    return build_content([mark, render_agent_mark(audience.agent), name]).truncate(width)


def render_folder(folder: str, number: int, count: int) -> Content:
    where = f"in {one_line(abbreviate_home(folder))} and below" if folder else "everywhere on this machine"
    return build_content([("Where: ", FAINT), (where, STRONG), (f"   {number} of {count}", FAINT)])


def render_sharing(audiences: Sequence[Audience]) -> Content:
    if not audiences:
        return build_content([("Shared with no agent.", MUTED)])
    names = ", ".join(map(describe_audience, audiences))
    return build_content([("Shared with ", FAINT), (names, MUTED)])


def format_audiences(audiences: Sequence[Audience]) -> str:
    """Return audiences in few words, e.g. `codex, all in ~/app`."""
    return ", ".join(
        f"{one.agent or 'all'}{f' in {abbreviate_home(one.folder)}' if one.folder else ''}" for one in audiences
    )
