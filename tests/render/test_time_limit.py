"""Tests that a text that takes a parser very long is shown without styles instead of blocking the screen."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from store.model.entry import Entry, PairedCall
from store.search.query import MAX_QUERY_CHARS, Query
from store.text.json import is_too_deep
from store.text.unicode import separate_cjk
from tui.render import time_limit
from tui.render.code import highlight_code
from tui.render.line_diff import render_text_diff
from tui.render.markdown import find_fenced_code, render_markdown
from tui.render.time_limit import NEXT_LIMIT_SECONDS, PAINT_LIMIT_SECONDS, PaintTimeLimit, run_with_time_limit
from tui.render.timeline_card import MAX_PREVIEW_LINES, ItemRendering, estimate_height
from tui.render.timeline_items import TimelineItem
from tui.render.viewport import Viewport, render_plain_text

ENTRY = Entry(1, 1, 0, 1, None, 1, "message", "tool", "", "", "", "", (), False, None, "")
SIGNS = "![" * 30_000
FULL = Viewport(80, is_full=True)


def loop_forever() -> str:
    while True:
        pass


def match_forever() -> str:
    return str(re.match(r"(a+)+$", "a" * 60 + "b"))


def test_a_result_that_comes_in_time_is_returned() -> None:
    assert run_with_time_limit(lambda: "styled", lambda: "plain") == "styled"


@pytest.mark.parametrize("render", [loop_forever, match_forever])
def test_a_rendering_that_takes_too_long_is_ended(render: type) -> None:
    assert run_with_time_limit(render, lambda: "plain") == "plain"
    assert run_with_time_limit(lambda: "styled", lambda: "plain") == "styled"


class SlowDestructor:
    """Takes time when it is deleted. Python ignores an exception that is raised there."""

    def __del__(self) -> None:
        loop_forever()


def test_a_limit_that_is_reached_in_a_destructor_applies() -> None:
    def render() -> str:
        SlowDestructor()
        return "styled"

    assert run_with_time_limit(render, lambda: "plain") == "plain"


def test_inside_another_call_the_limit_of_the_outer_call_applies() -> None:
    inner = lambda: run_with_time_limit(loop_forever, lambda: "inner")  # noqa: E731
    assert run_with_time_limit(inner, lambda: "outer") == "outer"


def test_an_error_of_the_rendering_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run_with_time_limit(lambda: 1 // 0, lambda: 0)
    assert run_with_time_limit(lambda: "styled", lambda: "plain") == "styled"


def test_in_another_thread_there_is_no_limit() -> None:
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(run_with_time_limit(lambda: "styled", lambda: "plain")))
    thread.start()
    thread.join()
    assert results == ["styled"]


# ── texts that took seconds ───────────────────────────────────────────────────────────────────────


def test_markdown_that_takes_too_long_is_shown_as_plain_text() -> None:
    assert list(render_markdown(SIGNS, FULL)) == list(render_plain_text(SIGNS, FULL))


def test_code_blocks_are_found_without_parsing_paragraphs() -> None:
    assert find_fenced_code(f"{SIGNS}\n\n```\ncode\n```\n") == ["code\n"]


def test_a_table_with_many_cells_is_cut() -> None:
    columns, rows = 50, 60
    table = "|" + "a|" * columns + "\n|" + "-|" * columns + "\n" + ("|" + "b|" * columns + "\n") * rows
    lines = run_with_time_limit(lambda: [line.plain for line in render_markdown(table, Viewport(80))], list, 5.0)
    assert len(lines) < 2_500
    assert any("20 more rows" in line for line in lines)


def test_a_table_of_empty_cells_is_short() -> None:
    table = "|" + "a|" * 400 + "\n|" + "-|" * 400 + "\n" + "|\n" * 122
    assert run_with_time_limit(lambda: 0 < len(list(render_markdown(table, Viewport(80)))) < 1_000, lambda: False, 5.0)


def test_on_a_busy_machine_one_item_of_a_screen_gets_the_long_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, other programs run between the items, so that the clock says nothing."""
    clock, limits = count(step=60), []

    def note_limit(render: Callable[[], str], fallback: Callable[[], None], seconds: float) -> str | None:
        limits.append(seconds)
        return run_with_time_limit(render, fallback, seconds)

    monkeypatch.setattr(time_limit.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(time_limit, "run_with_time_limit", note_limit)
    limit = PaintTimeLimit()
    for _ in range(3):
        assert limit.run(loop_forever) is None
    assert limits == [PAINT_LIMIT_SECONDS, NEXT_LIMIT_SECONDS, NEXT_LIMIT_SECONDS]


@pytest.mark.parametrize("pattern", ["x", "y"])
def test_many_hits_in_a_long_line_are_highlighted_in_linear_time(pattern: str) -> None:
    viewport = Viewport(80, re.compile(pattern), is_full=True)
    lines = run_with_time_limit(lambda: list(render_plain_text("xy" * 50_000, viewport)), list, 5.0)
    assert lines[0].spans
    assert len(lines) == 100_000 // 80


def test_a_preview_of_many_short_lines_is_short() -> None:
    item = TimelineItem("text", ENTRY, 0, "x\n" * 1_000_000)
    *lines, more = (line.plain for line in ItemRendering(item, FULL, True).render_preview())
    assert lines == ["x"] * MAX_PREVIEW_LINES
    assert more == "… 1,999,841 more characters · see the record"


def test_a_large_value_is_not_read_for_a_preview_and_an_estimate() -> None:
    class Unread(list[int]):
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("The value was read.")

    item = TimelineItem("result", ENTRY, 0, Unread([1] * 50), "tool")
    assert estimate_height(item, 80, is_open=True) == 51
    assert [line.plain for line in ItemRendering(item, FULL, True).render_preview()] == ["⚙ tool"]


def test_code_in_a_rare_language_is_left_to_the_other_process() -> None:
    code = """
import sys
from tui.render.code import highlight_code
from tui.render.time_limit import PaintTimeLimit, run_with_time_limit
limit = PaintTimeLimit()
print(limit.run(lambda: highlight_code("a", "matlab")), "pygments.lexers.matlab" in sys.modules)
print(limit.run(lambda: highlight_code("a", "no such language")[0].plain))
print(run_with_time_limit(lambda: highlight_code("a", "matlab")[0].plain, lambda: None, 60.0))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["None False", "a", "a"], ran.stderr


@pytest.mark.parametrize(("characters", "is_left"), [(100, False), (1_000_000, True)])
def test_the_lines_of_a_large_edit_are_counted_by_the_other_process(characters: int, is_left: bool) -> None:
    """Splitting a large text cannot be interrupted."""
    text = "x\n" * (characters // 2)
    arguments = {"file_path": "/a.py", "content": text}
    call = PairedCall(1, "s", 1, "c1", "Write", "ok", None, "s#1", None, arguments, None, "")
    item = TimelineItem("call", ENTRY, 0, None, "Write", call=call)
    lines = PaintTimeLimit().run(ItemRendering(item, FULL, False).render)
    assert (lines is None) == is_left
    rendered = run_with_time_limit(ItemRendering(item, FULL, False).render, list, 60.0)
    assert f"+{characters // 2}" in rendered[0].plain


def test_code_is_highlighted_as_far_as_the_time_allows() -> None:
    code = "x = 1\n" + "(\n" * 30_000
    lines = highlight_code(code, "python")
    assert lines[0].spans
    assert "\n".join(line.plain for line in lines) == code


def test_a_diff_of_one_line_many_times_is_shown() -> None:
    old = "x\n" * 900
    lines = [line.plain for line in render_text_diff(old, "y\n" + old)]
    assert "+ y" in lines


def test_long_texts_are_not_compared() -> None:
    old, new = "a" * 40_000 + "\nsame", "b" * 40_000 + "\nsame"
    assert [line.plain[:3] for line in render_text_diff(old, new)] == ["− a", "− s", "+ b", "+ s"]


def test_a_long_query_is_cut_and_the_person_is_warned() -> None:
    query = Query.parse("word" * 300_000)
    assert f"Only the first {MAX_QUERY_CHARS:,} characters are used." in query.warnings


def test_deep_json_is_recognized() -> None:
    assert is_too_deep(b"[" * 1_000_000 + b"]" * 1_000_000)
    assert is_too_deep(b"[[]," * 1_000 + b"]" * 1_000)
    assert not is_too_deep(b"[" * 200 + b"]" * 200)
    assert not is_too_deep(b"[" + b"[[],[]]," * 1_000 + b"0]")


def test_cjk_characters_are_separated() -> None:
    assert separate_cjk("漢" * 5 + "ab字").split() == ["漢"] * 5 + ["ab", "字"]
