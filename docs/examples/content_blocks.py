"""An agent loop with content blocks, as Anthropic's Messages API has them, that is recorded while it runs.

    python docs/examples/content_blocks.py [STORE]

The recorder never raises and never waits long, so the agent continues when the disk is full or another program is
writing. Run the program again, and the conversation continues.

The model is a local function, so that the program runs offline. To use the real one, replace `create_message`:

    client = Anthropic()
    reply = client.messages.create(model="claude-sonnet-4-5", max_tokens=1000, messages=messages, tools=TOOLS)
    reply = reply.model_dump(mode="json")
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from store import Json, NotFound, Recorder, Store, rebuild_session

SESSION = "example:content-blocks"
TOOLS = [{"name": "clock", "description": "Returns the time.", "input_schema": {"type": "object", "properties": {}}}]


# ── the agent ─────────────────────────────────────────────────────────────────────────────────────


def run_turn(recorder: Recorder, messages: list[Json], prompt: str) -> str:
    """Answer a prompt, and record every message as soon as it exists."""
    add_message(recorder, messages, "user", [{"type": "text", "text": prompt}])
    while True:
        reply = create_message(messages)
        add_message(recorder, messages, "assistant", reply["content"], reply["model"])
        if reply["stop_reason"] != "tool_use":
            return "".join(block["text"] for block in reply["content"] if block["type"] == "text")
        results = [run_tool(block) for block in reply["content"] if block["type"] == "tool_use"]
        add_message(recorder, messages, "user", results)


def add_message(recorder: Recorder, messages: list[Json], role: str, blocks: list[Json], model: str = "") -> None:
    messages.append({"role": role, "content": blocks})
    recorder.message(role, blocks, model=model)


def run_tool(call: Json) -> Json:
    now = datetime.now(UTC)
    return {"type": "tool_result", "tool_use_id": call["id"], "content": f"{now:%Y-%m-%d %H:%M} UTC"}


def load_messages(store: Store) -> list[Json]:
    """Return the conversation as the API takes it. Calls that were interrupted the last time are closed."""
    try:
        session = store.get_session(SESSION)
    except NotFound:
        return []
    messages: list[Json] = rebuild_session(store, session, "anthropic").body["messages"]
    return messages


def create_message(messages: list[Json]) -> Json:
    """Answer in the format of the Messages API: call the tool once, and then say what it returned."""
    (block, *_) = messages[-1]["content"]
    if block["type"] == "tool_result":
        content: list[Json] = [{"type": "text", "text": f"It is {block['content']}."}]
        return {"role": "assistant", "model": "local", "content": content, "stop_reason": "end_turn"}
    call = {"type": "tool_use", "id": f"toolu_{len(messages)}", "name": "clock", "input": {}}
    content = [{"type": "text", "text": "I look at the clock."}, call]
    return {"role": "assistant", "model": "local", "content": content, "stop_reason": "tool_use"}


# ── the program ───────────────────────────────────────────────────────────────────────────────────


def print_stored(store: Store) -> None:
    session = store.get_session(SESSION)
    print(f"\nStored in {store.path}: {session.turns} turns, {session.tool_calls} tool calls.")
    for message in store.get_messages(SESSION):
        for block in message.content:
            text = block.get("text") or block.get("name") or block.get("content")
            print(f"{message.seq:>3} {message.role:<9} {block['type']:<11} {text}")


def main() -> None:
    with Store.open(sys.argv[1] if len(sys.argv) > 1 else None) as store:
        messages = load_messages(store)
        with Recorder(store, SESSION, title="Example: content blocks", model="local") as recorder:
            for prompt in ("What time is it?", "And now?"):
                print(f"> {prompt}\n{run_turn(recorder, messages, prompt)}")
        print_stored(store)


if __name__ == "__main__":
    main()
