"""This module makes opencode databases, and the folders of files that older versions used, and fills them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foreign_databases import execute_sql, insert_row, make_database

FIRST_SCHEMA = """
create table project (
    id text primary key, worktree text not null, vcs text, name text, time_created integer not null,
    time_updated integer not null, sandboxes text not null
);
create table session (
    id text primary key, project_id text not null, parent_id text, slug text not null, directory text not null,
    title text not null, version text not null, share_url text, summary_additions integer,
    summary_deletions integer, summary_files integer, summary_diffs text, revert text, permission text,
    time_created integer not null, time_updated integer not null, time_compacting integer, time_archived integer
);
create table message (
    id text primary key, session_id text not null references session(id) on delete cascade,
    time_created integer not null, time_updated integer not null, data text not null
);
create table part (
    id text primary key, message_id text not null references message(id) on delete cascade,
    session_id text not null, time_created integer not null, time_updated integer not null, data text not null
);
create table todo (session_id text not null, content text not null, position integer not null);
"""
LATEST_SCHEMA = f"""
{FIRST_SCHEMA}
alter table session add column workspace_id text;
alter table session add column path text;
alter table session add column cost real default 0 not null;
alter table session add column tokens_input integer default 0 not null;
alter table session add column agent text;
alter table session add column model text;
create table session_message (
    id text primary key, session_id text not null references session(id) on delete cascade, type text not null,
    seq integer not null, time_created integer not null, time_updated integer not null, data text not null
);
create table event_sequence (aggregate_id text primary key, seq integer not null);
create table event (
    id text primary key, aggregate_id text not null, seq integer not null, type text not null, data text not null
);
create table credential (id text primary key, label text not null, value text not null);
create index message_session_time_created_id_idx on message (session_id, time_created, id);
create index part_message_id_id_idx on part (message_id, id);
"""
AT = 1_767_000_000_000
"""Is in milliseconds."""

USAGE = {"total": 120, "input": 99, "output": 21, "reasoning": 0, "cache": {"write": 0, "read": 0}}

Data = dict[str, Any]


def text_part(text: str, **more: Any) -> Data:
    return {"type": "text", "text": text} | more


def finished_text_part(text: str) -> Data:
    """Return a text that the model has completed."""
    return text_part(text, time={"start": AT, "end": AT + 1})


def tool_part(output: str = "a.txt", call_id: str = "call_1", name: str = "bash", **state: Any) -> Data:
    times = {"start": AT + 100, "end": AT + 350}
    full_state = {
        "status": "completed",
        "input": {"command": "ls"},
        "output": output,
        "metadata": {"exit": 0},
        "time": times,
    }
    return {"type": "tool", "tool": name, "callID": call_id, "state": full_state | state}


def user_message(**more: Any) -> Data:
    message = {"role": "user", "time": {"created": AT}, "agent": "build"}
    return message | {"model": {"providerID": "anthropic", "modelID": "opus"}, "summary": {"diffs": []}} | more


def assistant_message(**more: Any) -> Data:
    message = {"role": "assistant", "time": {"created": AT, "completed": AT + 9}, "modelID": "opus", "mode": "build"}
    return (
        message | {"providerID": "anthropic", "path": {"cwd": "/srv/app", "root": "/srv/app"}, "tokens": USAGE} | more
    )


class OpencodeStore:
    """Writes the database as opencode does."""

    def __init__(self, path: Path, layout: str = LATEST_SCHEMA, *, keeps_times: bool = False) -> None:
        self.path = make_database(path, layout, wal=True)
        self._count = 0
        self._keeps_times = keeps_times
        "Is set where messages keep the times that they are given, which may be the same for all."

    def add_session(self, session_id: str = "ses_1", *turns: tuple[Data, list[Data]], **columns: Any) -> None:
        row: Data = {
            "id": session_id,
            "project_id": "global",
            "slug": "a-b",
            "directory": "/srv/app",
            "title": "A session",
        }
        row |= {"version": "1.18.33", "time_created": AT, "time_updated": AT + 60_000}
        insert_row(self.path, "session", **row | columns)
        for data, parts in turns:
            self.add_message(data, *parts, session_id=session_id)

    def add_message(self, data: Data | str, *parts: Data | str, session_id: str = "ses_1") -> str:
        self._count += 1
        name = f"msg_{self._count:03}"
        times = {"time_created": AT + self._count * 1000, "time_updated": AT + self._count * 1000}
        if isinstance(data, dict) and "time" in data and not self._keeps_times:
            data = data | {"time": data["time"] | {"created": times["time_created"]}}
        insert_row(self.path, "message", id=name, session_id=session_id, data=_to_json(data), **times)
        for part in parts:
            self.add_part(name, part, session_id)
        return name

    def add_part(self, message: str, data: Data | str, session_id: str = "ses_1") -> str:
        self._count += 1
        name = f"prt_{self._count:03}"
        times = {"time_created": AT + self._count * 1000, "time_updated": AT + self._count * 1000}
        encoded = _to_json(data)
        insert_row(self.path, "part", id=name, message_id=message, session_id=session_id, data=encoded, **times)
        return name

    def update_data(self, table: str, name: str, data: Data) -> None:
        execute_sql(
            self.path,
            f"update {table} set data = ?, time_updated = time_updated + 1 where id = ?",
            [(_to_json(data), name)],
        )

    def add_session_message(self, kind: str, session_id: str = "ses_1", **data: Any) -> None:
        """Add a row to the newer table."""
        self._count += 1
        row = {"id": f"msg_{self._count:03}", "session_id": session_id, "type": kind, "seq": self._count}
        insert_row(self.path, "session_message", time_created=AT, time_updated=AT, data=json.dumps(data), **row)


def _to_json(data: Data | str) -> str:
    """Encode JSON as JavaScript does."""
    return data if isinstance(data, str) else json.dumps(data, separators=(",", ":"), ensure_ascii=False)


class OpencodeFiles:
    """Writes one file for each thing: in the layout of the second generation, or with a project name of the first."""

    def __init__(self, root: Path, project: str = "") -> None:
        self._folder = root / "project" / project / "storage/session" if project else root / "storage"
        self._is_first_generation = bool(project)
        self._count = 0

    def add_session(self, session_id: str = "ses_1", *turns: tuple[Data, list[Data]], **info: Any) -> None:
        info_file = {
            "id": session_id,
            "version": "0.5.1",
            "title": "A session",
            "time": {"created": AT, "updated": AT + 60_000},
        }
        if not self._is_first_generation:
            info_file |= {"projectID": "global", "directory": "/srv/app"}
        folder = "info" if self._is_first_generation else "session/global"
        self._write(f"{folder}/{session_id}", info_file | info)
        for data, parts in turns:
            self.add_message(data, *parts, session_id=session_id)

    def add_message(self, data: Data, *parts: Data, session_id: str = "ses_1") -> str:
        self._count += 1
        name = f"msg_{self._count:03}"
        times = {**data["time"], "created": AT + self._count * 1000}
        self._write(f"message/{session_id}/{name}", {"id": name, "sessionID": session_id, **data, "time": times})
        for part in parts:
            self._count += 1
            folder = f"part/{session_id}/{name}" if self._is_first_generation else f"part/{name}"
            ids = {"id": f"prt_{self._count:03}", "messageID": name, "sessionID": session_id}
            self._write(f"{folder}/prt_{self._count:03}", ids | part)
        return name

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _write(self, name: str, value: Data) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=2))
