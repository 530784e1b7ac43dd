"""This module renders memory files, shared facts and proposals: the folders of scopes, the lines, and one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from textual.content import Content

from store.memory.rules import CODEX_MEMORIES
from store.memory.targets import AUDIENCES
from store.model.knowledge import Fact, Proposal
from store.model.memory import (
    Audience,
    FileBlame,
    KeyConflict,
    LineEdit,
    LineOrigin,
    LinePlace,
    ListedFile,
    LoadedFile,
    MemoryBudget,
    MergeOption,
    PullPlan,
    PushPlan,
)
from store.sources import source_label
from store.text.sanitize import cell_width, one_line, sanitize
from tui.render import glyphs
from tui.render.fact_lines import scope_name
from tui.render.line_diff import ADDED, REMOVED, render_text_diff
from tui.render.session_lines import abbreviate_home
from tui.render.styles import (
    ERROR,
    FAINT,
    MUTED,
    STRONG,
    WARNING,
    StyledText,
    agent_badge,
    build_content,
    format_age,
    format_count,
)
from tui.render.viewport import RenderedLine

ALL_GROUPS, PROPOSALS_GROUP, MACHINE_GROUP = "all", "proposals", "machine"
MAX_MARKS = 5
"""Limits the marks of agents before a line in a wide list. More are counted."""

_ALL_AGENTS = "all agents"
_PROBLEM = "problem:"
_DROP_TARGET = "bold reverse"
_PLACE_CELLS, _MARK_CELLS, _WIDE = 34, 3, 80


class MemoryRow(NamedTuple):
    """Is a line of a memory file, a fact, or a proposal."""

    key: str
    group: str
    "Names the folder on the left that it is in."
    text: str
    agents: tuple[str, ...] = ()
    "Names the agents that load it, or get it."
    path: str = ""
    number: int = 0
    fact: Fact | None = None
    audiences: tuple[Audience, ...] = ()
    proposal: Proposal | None = None

    @property
    def place(self) -> str:
        if self.proposal is not None:
            return f"proposed by {self.proposal.agent or 'an agent'}"
        if self.fact is not None:
            return f"fact {self.fact.id}" + (f" → {format_audiences(self.audiences)}" if self.audiences else "")
        return f"{abbreviate_home(self.path)}:{self.number}"

    def matches(self, words: Sequence[str]) -> bool:
        text = f"{self.text} {self.place} {' '.join(self.agents)}".casefold()
        return all(word in text for word in words)


class MemoryGroup(NamedTuple):
    """Is a folder on the left: a scope, with the number of its rows."""

    key: str
    label: str
    row_count: int


def list_rows(
    files: Sequence[ListedFile],
    facts: Sequence[Fact],
    audiences: Mapping[int, Sequence[Audience]],
    proposals: Sequence[Proposal],
) -> list[MemoryRow]:
    """Return proposals, then facts by scope, then the lines of the files from the widest scope to the narrowest."""
    rows = [MemoryRow(f"proposal:{one.id}", PROPOSALS_GROUP, one.text, proposal=one) for one in proposals]
    for fact in facts:
        shared = tuple(audiences.get(fact.id, ()))
        agents = tuple(dict.fromkeys(audience.agent or _ALL_AGENTS for audience in shared))
        group = f"fact:{fact.scope}"
        rows.append(MemoryRow(f"fact:{fact.id}", group, fact.text, agents, fact=fact, audiences=shared))
    order = {"machine": 0, "agent": 1, "folder": 2}
    for listed in sorted(files, key=lambda listed: (order[listed.scope], listed.folder)):
        rows += _list_file_rows(listed)
    return rows


def _list_file_rows(listed: ListedFile) -> Iterator[MemoryRow]:
    path = listed.file.path
    match listed.scope:
        case "machine":
            group = MACHINE_GROUP
        case "agent":
            group = f"agent:{listed.agents[0]}"
        case _:
            group = f"folder:{listed.folder}"
    if listed.file.problem:
        yield MemoryRow(f"{_PROBLEM}{path}", group, listed.file.problem, listed.agents, path)
    for line in listed.file.lines:
        yield MemoryRow(f"line:{path}:{line.number}", group, line.text, listed.agents, path, line.number)


def list_groups(rows: Sequence[MemoryRow], agents: Sequence[str], folders: Sequence[str]) -> list[MemoryGroup]:
    """Return the scopes that have rows, then those for which a fact can be shared: agents, and the newest folders."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.group] = counts.get(row.group, 0) + 1
    for key in (MACHINE_GROUP, *(f"agent:{agent}" for agent in agents), *(f"folder:{folder}" for folder in folders)):
        counts.setdefault(key, 0)
    groups = [MemoryGroup(key, _group_label(key), count) for key, count in counts.items()]
    return [MemoryGroup(ALL_GROUPS, "Everything", len(rows)), *groups]


def find_audience(group: str) -> Audience | None:
    """Return the audience that a scope stands for, or None if nothing can be shared with it."""
    kind, _, name = group.partition(":")
    match kind:
        case "machine":
            return Audience()
        case "agent":
            return Audience(name)
        case "folder":
            return Audience("", name)
    return None


def _group_label(key: str) -> str:
    kind, _, name = key.partition(":")
    match kind:
        case "proposals":
            return "Proposals"
        case "fact":
            return f"Facts, {scope_name(name)}"
        case "machine":
            return "All agents"
        case "agent":
            return source_label(name)
    return abbreviate_home(name)


# ── the lists ─────────────────────────────────────────────────────────────────────────────────────


def render_group(group: MemoryGroup, width: int, *, is_drop_target: bool = False) -> Content:
    count = f"{group.row_count:,}" if group.row_count else ""
    room = max(width - cell_width(count) - 1, 1)
    label = one_line(group.label, room)
    style = _DROP_TARGET if is_drop_target else WARNING if group.key == PROPOSALS_GROUP else ""
    return build_content([(label + " " * (room - cell_width(label) + 1), style), (count, FAINT)]).truncate(width)


def render_memory_row(row: MemoryRow, width: int) -> Content:
    """Render `cc cx  Use tabs.            ~/app/AGENTS.md:3`."""
    place_width = min(_PLACE_CELLS, width // 3)
    mark_count = MAX_MARKS if width >= _WIDE else 3
    mark_width = mark_count * _MARK_CELLS
    text_width = max(width - place_width - mark_width - 2, 1)
    text = one_line(row.text, text_width)
    style = ERROR if row.key.startswith(_PROBLEM) else ""
    pieces: list[StyledText] = [*_render_marks(row, mark_count)]
    pieces += [(text + " " * (text_width - cell_width(text) + 2), style), (_cut_front(row.place, place_width), FAINT)]
    return build_content(pieces).truncate(width)


def _render_marks(row: MemoryRow, room: int) -> list[StyledText]:
    """Render the agents as their letters, `**` for all agents, in as many columns as there is room for."""
    if row.proposal is not None:
        return [("?".ljust(room * _MARK_CELLS), WARNING)]
    marks: list[StyledText] = []
    for agent in row.agents:
        letters, style = render_agent_mark("" if agent == _ALL_AGENTS else agent)
        marks.append((f"{letters} ", style))
    if len(marks) > room:
        marks[room - 1 :] = [(f"+{len(marks) - room + 1}".ljust(_MARK_CELLS), FAINT)]
    empty = "·" if row.fact is not None and not marks else ""
    return [*marks, (empty.ljust((room - len(marks)) * _MARK_CELLS), FAINT)]


def _cut_front(text: str, width: int) -> str:
    """Cut the beginning of a place: its end says more."""
    line = one_line(text)
    return line if cell_width(line) <= width else "…" + line[-max(width - 1, 1) :]


# ── one row ───────────────────────────────────────────────────────────────────────────────────────


def render_memory_page(
    row: MemoryRow, blame: FileBlame | None, now: datetime, conflict: KeyConflict | None = None
) -> list[Content]:
    """Render everything about one row. `blame` is None until it is read."""
    lines = [build_content([(one_line(row.text, 2_000), STRONG)])]
    if row.proposal is not None:
        return [*lines, *_render_proposal(row.proposal, now)]
    if row.fact is not None:
        return [*lines, *_render_fact(row)]
    agents = ", ".join(source_label(agent) for agent in row.agents)
    lines.append(
        build_content([(f"{abbreviate_home(row.path)}:{row.number}", MUTED), (f" · loaded by {agents}", MUTED)])
    )
    if conflict is not None:
        others = [place for place in conflict.places if (place.path, place.number) != (row.path, row.number)]
        places = ", ".join(f"{abbreviate_home(place.path)}:{place.number}" for place in others)
        lines.append(build_content([(f"Differs from {places}. Press m to merge.", WARNING)]))
    return [*lines, *(_render_blame(blame, now) if blame is not None else [])]


def _render_fact(row: MemoryRow) -> Iterator[Content]:
    if not row.audiences:
        yield build_content([("No agent gets it. Press S, or drag it onto a scope.", MUTED)])
        return
    for audience in row.audiences:
        yield build_content([("Shared with ", FAINT), (describe_audience(audience), MUTED)])
    yield build_content([("P writes it into their files, after a preview.", FAINT)])


def _render_proposal(proposal: Proposal, now: datetime) -> Iterator[Content]:
    yield build_content(
        [
            (f"Proposed by {one_line(proposal.agent, 60) or 'an agent'}", MUTED),
            (_format_ago(proposal.created_at, now), FAINT),
        ]
    )
    if proposal.reason:
        yield build_content([("Reason: ", FAINT), (one_line(proposal.reason, 500), MUTED)])
    if proposal.session_id:
        turn = f", turn {proposal.turn}" if proposal.turn is not None else ""
        yield build_content([("Proof: ", FAINT), (f"{one_line(proposal.session_id, 80)}{turn}", MUTED)])


def _render_blame(blame: FileBlame, now: datetime) -> Iterator[Content]:
    for blamed in blame.lines:
        yield build_content([("Written ", FAINT), *_describe_origin(blamed.origin, now)])
        for earlier in blamed.earlier:
            yield build_content([("Before: ", FAINT), (one_line(earlier.text, 500), REMOVED)])
            yield build_content([("  written ", FAINT), *_describe_origin(earlier.origin, now)])
    since = " since" if all(blamed.origin.at for blamed in blame.lines) else ""
    used = format_count(blame.loading_count, "session") or "no session"
    yield build_content([(f"Used in {used}{since}", MUTED)])
    for session in blame.loading:
        badge = agent_badge(session.agent)
        how = "" if session.is_recorded else "  by the rules of the agent"
        pieces: list[StyledText] = [
            ("  ", ""),
            (f"{badge.letters} ", badge.style),
            (one_line(session.title, 60), MUTED),
        ]
        yield build_content([*pieces, (f"  {format_age(session.at, now)}{how}", FAINT)])
    if blame.unread_sessions:
        yield build_content([(f"Not completely read yet: {format_count(blame.unread_sessions, 'session')}.", WARNING)])


def _format_ago(at: str, now: datetime) -> str:
    age = format_age(at, now)
    return f", {age} ago" if age[:-1].isdigit() else f", {age}"


def _describe_origin(origin: LineOrigin, now: datetime) -> list[StyledText]:
    age = _format_ago(origin.at, now) if origin.at else ""
    match origin.kind:
        case "session":
            title = one_line(origin.title, 60)
            return [
                (f"by {source_label(origin.agent)} in turn {origin.turn} of ", MUTED),
                (title, STRONG),
                (age, FAINT),
            ]
        case "commit":
            what = f"by {one_line(origin.author, 40)} in commit {origin.commit[:10]}: {one_line(origin.summary, 60)}"
            return [(what, MUTED), (age, FAINT)]
        case "fact":
            return [(f"by a push of fact {origin.fact}", MUTED)]
    return [("by hand, as far as the store knows", MUTED)]


# ── previews ──────────────────────────────────────────────────────────────────────────────────────


def render_push_plan(plan: PushPlan) -> list[RenderedLine]:
    lines: list[RenderedLine] = [build_content([(one_line(problem), ERROR)]) for problem in plan.problems]
    for file in plan.changed:
        state = "new" if file.before is None else "deleted" if file.after is None else "changed"
        lines += [Content(""), build_content([(abbreviate_home(file.path), STRONG), (f"  {state}", MUTED)])]
        lines += [build_content([("! ", WARNING), (one_line(note), WARNING)]) for note in file.notes]
        lines += render_text_diff(file.before or "", file.after or "")
    return lines or [build_content([("Nothing to push.", MUTED)])]


def render_pull_plan(plan: PullPlan) -> list[RenderedLine]:
    lines: list[RenderedLine] = [build_content([(one_line(problem), ERROR)]) for problem in plan.problems]
    for edit in plan.edits:
        lines += [Content(""), *_render_line_edit(edit)]
    if plan.conflicts:
        advice = "Edited here and there. Press h to keep the texts here, or t to take those of the files."
        lines += [Content(""), build_content([(advice, WARNING)])]
    return lines or [build_content([("Nothing was edited by hand.", MUTED)])]


def _render_line_edit(edit: LineEdit) -> Iterator[RenderedLine]:
    name = f"fact {edit.fact}" if edit.fact else "new fact"
    where = f"  {edit.kind} in {abbreviate_home(edit.path)}"
    yield build_content([(name, STRONG), (where, MUTED)])
    if edit.base:
        yield build_content([(f"- {one_line(edit.base, 500)}", REMOVED)])
    if edit.is_conflict:
        yield build_content([("  here:  ", FAINT), (one_line(edit.here, 500) or "(retired)", "")])
        yield build_content([("  there: ", FAINT), (one_line(edit.there, 500) or "(removed)", "")])
    elif edit.there:
        yield build_content([(f"+ {one_line(edit.there, 500)}", ADDED)])


def render_merge_option(option: MergeOption) -> Content:
    """Render one value of a key and where it is."""
    places = "\n".join(f"{abbreviate_home(place.path)}:{place.number}" for place in option.places)
    return build_content([(one_line(option.text, 500), STRONG), (f"\n\n{sanitize(places)}", FAINT)])


# ── budget ────────────────────────────────────────────────────────────────────────────────────────


def render_budget(budget: MemoryBudget) -> list[RenderedLine]:
    """Render what each agent loads in a folder, in order, and what is there twice or differs."""
    lines: list[RenderedLine] = [build_content([(one_line(problem), ERROR)]) for problem in budget.problems]
    for agent in budget.agents:
        badge = agent_badge(agent.agent)
        total = f"  about {agent.tokens:,} tokens at the start" + (
            f", {agent.cut_bytes:,} bytes are cut" if agent.cut_bytes else ""
        )
        lines += [
            Content(""),
            build_content([(f"{badge.letters} ", badge.style), (source_label(agent.agent), STRONG), (total, MUTED)]),
        ]
        lines += [_render_loaded_file(file) for file in agent.files]
    for duplicate in budget.duplicates:
        agents = ", ".join(map(source_label, duplicate.agents))
        lines += [
            Content(""),
            build_content([("twice  ", WARNING), (one_line(duplicate.text, 200), STRONG), (f"  {agents}", MUTED)]),
        ]
        lines += [_render_line_place(place, "") for place in duplicate.places]
    for conflict in budget.conflicts:
        agents = ", ".join(map(source_label, conflict.agents))
        lines += [
            Content(""),
            build_content([("differs  ", ERROR), (one_line(conflict.key, 100), STRONG), (f"  {agents}", MUTED)]),
        ]
        lines += [_render_line_place(place, place.text) for place in conflict.places]
    if budget.conflicts:
        lines += [
            Content(""),
            build_content([("Press m on one of the lines that differ to give all of them one value.", MUTED)]),
        ]
    return lines or [build_content([("No agent finds a memory file here.", MUTED)])]


def _render_loaded_file(file: LoadedFile) -> Content:
    tokens = "-" if file.when == "not loaded" else f"{file.tokens:,}"
    style = "" if file.when == "start" else FAINT
    notes = [f"Imported by {abbreviate_home(file.imported_by)}." if file.imported_by else "", file.reason]
    text = f"{tokens:>8}  {file.when:<10}  {one_line(abbreviate_home(file.path))}"
    return build_content([(text, style), (f"  {one_line(' '.join(filter(None, notes)))}", FAINT)])


def _render_line_place(place: LinePlace, text: str) -> Content:
    where = f"  {abbreviate_home(place.path)}:{place.number}"
    return build_content([(where, FAINT), (f"  {one_line(text, 200)}" if text else "", "")])


# ── audiences ────────────────────────────────────────────────────────────────────────────────────


def list_agents(folder: str) -> list[str]:
    """Return the agents that can get a fact in a folder, or everywhere. An empty name is all of them."""
    return ["", *(agent for agent in AUDIENCES if not folder or agent != CODEX_MEMORIES)]


def name_agent(agent: str) -> str:
    return "Codex, for its memories" if agent == CODEX_MEMORIES else source_label(agent) if agent else "All agents"


def describe_audience(audience: Audience) -> str:
    where = f"in {abbreviate_home(audience.folder)}" if audience.folder else "everywhere"
    return f"{name_agent(audience.agent) if audience.agent else 'all agents'} {where}"


def render_agent_mark(agent: str) -> StyledText:
    """Render the two letters of an agent, `**` for all agents."""
    if not agent:
        return "**", MUTED
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
