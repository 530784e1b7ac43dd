"""This module generates logs of thousands of lines and a conversation of several hundred turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from store.demo.script import ScriptedConversation, ScriptStep
from store.model.entry import Text

# ── logs ──────────────────────────────────────────────────────────────────────────────────────────

_PACKAGES = ("libpq5", "gcc-12", "libssl3", "zlib1g", "libexpat1", "perl-base", "libxml2", "binutils", "make", "cpp-12")
_MODULES = (
    "alerts",
    "charts",
    "dashboard",
    "forms",
    "i18n",
    "layout",
    "login",
    "probes",
    "reports",
    "settings",
    "theme",
)
_NAMES = ("root", "admin", "oracle", "test", "ubuntu", "pi", "git", "postgres", "deploy")


def build_log() -> str:
    """Return the log of a container image that is built in two stages."""
    lines = [
        "#1 [internal] load build definition from Dockerfile",
        "#1 transferring dockerfile: 812B done",
        "#1 DONE 0.0s",
    ]
    lines += ["", "#5 [build 2/6] RUN apt-get update && apt-get install -y build-essential libpq-dev"]
    lines += [
        f"#5 {n / 40:.2f} Get:{n} http://mirror.example.org/debian stable/main amd64 {_PACKAGES[n % 10]} amd64 "
        f"{n % 7}.{n % 13}-{n % 5} [{n * 37 % 900 + 12} kB]"
        for n in range(1, 420)
    ]
    lines += ["#5 DONE 31.8s", "", "#7 [build 4/6] RUN npm ci && npm run build"]
    for n in range(1, 1_900):
        module = _MODULES[n % 11]
        lines.append(f"#7 {n / 30:.2f} [{n:>4}/1899] src/{module}/{module}-{n % 23}.tsx  {n * 17 % 40 + 1}.{n % 10} kB")
        if n % 631 == 0:
            lines.append(f"#7 {n / 30:.2f} warning: src/{module}/index.ts: 'unused' is declared but never read")
    lines += ["#7 DONE 196.3s", "", "#9 [stage-1 3/3] COPY --from=build /app/dist /app", "#9 DONE 0.4s"]
    lines += ["", "#10 exporting to image", "#10 naming to docker.io/library/beacon:slim done", "#10 DONE 2.9s"]
    return "\n".join(lines)


def ssh_log() -> str:
    """Return one night's SSH log of a machine on the internet."""
    return "\n".join(
        f"{n // 60:02}:{n % 60:02}:{n * 7 % 60:02} cellar sshd[{2_000 + n}]: Failed password for "
        f"{_NAMES[n % 9]} from 203.0.113.{n * 13 % 254 + 1} port {40_000 + n * 31 % 20_000} ssh2"
        for n in range(0, 432, 2)
    )


GENERATED_OUTPUTS: Mapping[str, Callable[[], str]] = {"build log": build_log, "journal": ssh_log}

# ── the tutor ─────────────────────────────────────────────────────────────────────────────────────

_PERSONS = ("yo", "tú", "ella", "nosotros", "vosotros", "ellos")
_PRAISE = ("¡Bien!", "¡Exacto!", "Sí.", "¡Muy bien!", "Correcto.", "¡Eso es!", "Perfecto.")
_FIRST_PROMPT = (
    "Quiz me on irregular verbs please, one form at a time. Present and pretérito, mixed. I'm on the train for a while."
)
_ANSWERS_PER_DAY = 52
"""The learner stops for the day after this many answers."""


def build_tutor_conversation(tenses: Mapping[str, Mapping[str, str]]) -> ScriptedConversation:
    return ScriptedConversation(
        "pingu",
        "telegram:512233890",
        days_ago=8.0,
        steps=tuple(_build_quiz(tenses)),
        model="gpt-5-mini",
        session_fields={"channel": "telegram", "channel_id": "512233890", "user": "512233890", "provider": "openai"},
    )


def _build_quiz(tenses: Mapping[str, Mapping[str, str]]) -> Iterator[ScriptStep]:
    questions = list(_shuffle_questions(tenses))
    question, right = questions[0], 0
    yield ScriptStep(role="user", parts=(Text(_FIRST_PROMPT),))
    yield _assistant_step(f"¡Vamos! {_format_question(question)}")
    for n, following in enumerate([*questions[1:], None], start=1):
        _, _, person, forms = question
        correct = forms[person]
        # A learner's mistakes are seldom random. Usually it is the form of the next person.
        given = forms[(person + 1) % 6] if n * 5 % 13 in (3, 7) else correct
        right += given == correct
        pause = 60.0 * 60 * 17 if n % _ANSWERS_PER_DAY == 0 else 12.0 + n * 7 % 23
        yield ScriptStep(role="user", parts=(Text(given),), delay_seconds=pause)
        verdict = (
            _PRAISE[n % 7] if given == correct else f"No: **{correct}**. *{given}* is {_PERSONS[(person + 1) % 6]}."
        )
        if following is None:
            yield _assistant_step(f"{verdict} That was the last one: {right} of {n}. ¡Hasta mañana!")
            return
        yield _assistant_step(f"{verdict} {_format_question(following)}")
        question = following


def _shuffle_questions(tenses: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str, int, list[str]]]:
    """Yield every form once, in a mixed but fixed order."""
    questions = [
        (verb, tense, person, forms.split())
        for tense, verbs in tenses.items()
        for verb, forms in verbs.items()
        for person in range(6)
    ]
    return (questions[n * 89 % len(questions)] for n in range(len(questions)))


def _format_question(question: tuple[str, str, int, list[str]]) -> str:
    verb, tense, person, _ = question
    return f"**{verb}**, {tense}, {_PERSONS[person]}?"


def _assistant_step(text: str) -> ScriptStep:
    return ScriptStep(role="assistant", parts=(Text(text),), delay_seconds=2.5)
