"""This module waits until an application has done the work that a key caused.

Textual's own wait uses the processor time of the process. On a busy machine it considers an application idle that only
got no processor time, and on any machine it sleeps longer than most keys take. This wait checks for pending work.
"""

from __future__ import annotations

import asyncio
from typing import Any

from textual._context import active_app
from textual.app import App
from textual.screen import Screen

POLL_SECONDS = 0.002
"""Is how long to wait for threads before the next check."""


async def wait_until_idle(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Wait until no callback is due, no worker thread runs and everything is painted. Timers may still run."""
    app = active_app.get()
    loop = asyncio.get_running_loop()
    limit = loop.time() + max_sleep
    await asyncio.sleep(min_sleep)
    while loop.time() < limit and app.is_running:
        if loop._ready:  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        elif _has_running_worker(app):
            await asyncio.sleep(POLL_SECONDS)
        elif app.screen_stack and _needs_repaint(app.screen):
            app.screen._on_timer_update()
            await asyncio.sleep(0)
        else:
            return


def _has_running_worker(app: App[Any]) -> bool:
    return any(worker._thread_worker and not worker.is_finished for worker in app.workers)


def _needs_repaint(screen: Screen[Any]) -> bool:
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._callbacks
    )
