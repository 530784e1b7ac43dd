"""This module makes up conversations with the shapes of real ones, independent of the agent that writes them.

Few sessions are very long, a session works on few files, and it reads and edits them again and again. The `novelty` of
a history is the share of files and lines that no session has seen before.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from uuid import UUID

from bench.dialogues import LAST_WORD, NEWEST_START, START_INTERVAL, Dialogue, DialogueStep, DialogueTurn
from bench.prose import Prose
from bench.workspace import Workspace, load_workspace

SESSIONS_PER_WORKSPACE = 4
FILES_PER_SESSION = 6
_KINDS, _KIND_WEIGHTS = ("Bash", "Read", "Edit", "Write", "Grep", "Agent"), (31, 12, 33, 7, 7, 7)
_OUTPUT_LINES = (1, 3, 8, 15, 30, 60, 120, 250, 600)
_OUTPUT_WEIGHTS = (10, 12, 14, 14, 12, 8, 5, 3, 1)
_REWIND_CHANCE = 0.1


@dataclass(frozen=True, slots=True)
class WorkStep(DialogueStep):
    """Is a step that works on a file. `output` is what a command printed, or the answer of a sub-agent."""

    path: str
    content: str
    "Is the file before an edit, or after it was written."
    old_line: str
    new_line: str
    sub_outputs: tuple[str, ...]
    "Holds what the commands of a sub-agent printed."


@dataclass(frozen=True, slots=True)
class WorkTurn(DialogueTurn):
    rewound_prompt: str
    "Is an earlier wording of the prompt, if the person went back and asked again."


def make_realistic_dialogue(number: int, prose: Prose, novelty: float) -> Dialogue:
    """Return the dialogue of a number, which is always the same; 0 is the newest."""
    return _RealisticSession(number, prose, novelty).make_dialogue()


class _RealisticSession:
    def __init__(self, number: int, prose: Prose, novelty: float) -> None:
        self._number = number
        self._prose = prose
        self._novelty = novelty
        self._rng = rng = random.Random(f"realistic {number}")
        # New projects are begun all the time, so that their names never end.
        self._workspace = load_workspace(number // SESSIONS_PER_WORKSPACE, prose, novelty)
        self._files = {path: self._workspace.read_file(path) for path in self._choose_paths(rng, self._workspace)}

    def _choose_paths(self, rng: random.Random, workspace: Workspace) -> list[str]:
        return [
            workspace.make_path(rng) if rng.random() < self._novelty else rng.choice(workspace.paths)
            for _ in range(FILES_PER_SESSION)
        ]

    def make_dialogue(self) -> Dialogue:
        rng = self._rng
        title = f"Task {self._number:06d} {self._prose.make_phrase(rng, 4)}"
        steps_left = int(10 / (rng.random() + 0.025))  # a few sessions have forty times as many steps as most
        turns: list[WorkTurn] = []
        while steps_left > 0:
            count = min(steps_left, rng.choice((1, 2, 4, 8, 16, 32)))
            steps_left -= count
            turns.append(self._make_turn("" if turns else f"{title}: ", count, is_last=not steps_left))
        started_at = NEWEST_START - self._number * START_INTERVAL
        uuid = UUID(int=rng.getrandbits(128), version=4)
        return Dialogue(self._number, uuid, started_at, title, self._workspace.folder, tuple(turns))

    def _make_turn(self, title: str, count: int, *, is_last: bool) -> WorkTurn:
        rng, prose = self._rng, self._prose
        prompt = title + prose.make_sentences(rng, rng.randint(6, 80))
        answer = prose.make_sentences(rng, rng.randint(20, 200))
        steps = tuple(self._make_step() for _ in range(count))
        is_rewound = not title and rng.random() < _REWIND_CHANCE
        rewound_prompt = prose.make_sentences(rng, rng.randint(6, 80)) if is_rewound else ""
        return WorkTurn(prompt, steps, f"{answer} {LAST_WORD}." if is_last else answer, rewound_prompt)

    def _make_step(self) -> WorkStep:
        rng, prose = self._rng, self._prose
        kind = rng.choices(_KINDS, _KIND_WEIGHTS)[0]
        if kind == "Write":
            path = self._workspace.make_path(rng)
            self._files[path] = self._workspace.read_file(path)
        else:
            path = rng.choice(list(self._files))
        lines = self._files[path]
        content = "\n".join(lines)
        place = rng.randrange(len(lines))
        old_line = lines[place]
        new_line = f"{old_line}  # {prose.make_phrase(rng, 5)}"
        if kind == "Edit":
            lines[place] = new_line
        is_agent = kind == "Agent"
        return WorkStep(
            thinking=prose.make_sentences(rng, rng.randint(12, 100)) if rng.randrange(3) else "",
            text=prose.make_sentences(rng, rng.randint(6, 30)) if rng.randrange(3) == 0 else "",
            tool=kind,
            command=f"rg -n {prose.make_phrase(rng, 2)} {path}",
            output=prose.make_sentences(rng, 120) if is_agent else self._make_output(),
            failed=kind == "Bash" and rng.randrange(12) == 0,
            path=path,
            content=content,
            old_line=old_line,
            new_line=new_line,
            sub_outputs=tuple(self._make_output() for _ in range(rng.choice((3, 6, 10)))) if is_agent else (),
        )

    def _make_output(self) -> str:
        count = self._rng.choices(_OUTPUT_LINES, _OUTPUT_WEIGHTS)[0]
        return self._workspace.make_output(self._rng, count)
