"""This module offers the methods for agents to asynchronous programs: each runs in a thread, not in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from store.agent_api.methods import AgentMethods

if TYPE_CHECKING:
    from store.agent_api.methods import AgentApiStore

P = ParamSpec("P")
R = TypeVar("R")


def _in_thread(
    method: Callable[Concatenate[AgentApiStore, P], R],
) -> Callable[Concatenate[AsyncStore, P], Coroutine[Any, Any, R]]:
    """Return an asynchronous method with the same parameters. A store has a connection for each thread."""

    @wraps(method)
    async def run_in_thread(self: AsyncStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._store, *args, **kwargs)

    return run_in_thread


class AsyncStore:
    """Has every method for agents under the same name, to be awaited. This is `store.aio`."""

    def __init__(self, store: AgentApiStore) -> None:
        self._store = store

    ensure_session = _in_thread(AgentMethods.ensure_session)
    create_session = _in_thread(AgentMethods.create_session)
    get_session = _in_thread(AgentMethods.get_session)
    update_session = _in_thread(AgentMethods.update_session)
    delete_session = _in_thread(AgentMethods.delete_session)
    list_sessions = _in_thread(AgentMethods.list_sessions)
    append_message = _in_thread(AgentMethods.append_message)
    get_messages = _in_thread(AgentMethods.get_messages)
    save_turn = _in_thread(AgentMethods.save_turn)
    add_items = _in_thread(AgentMethods.add_items)
    load_input_history = _in_thread(AgentMethods.load_input_history)
    get_entry = _in_thread(AgentMethods.get_entry)
    set_summary = _in_thread(AgentMethods.set_summary)
    get_summary = _in_thread(AgentMethods.get_summary)
    set_secret = _in_thread(AgentMethods.set_secret)
    get_secret = _in_thread(AgentMethods.get_secret)
    list_secret_names = _in_thread(AgentMethods.list_secret_names)
    learn = _in_thread(AgentMethods.learn)
    publish = _in_thread(AgentMethods.publish)
    resolve = _in_thread(AgentMethods.resolve)
    open_published = _in_thread(AgentMethods.open_published)
