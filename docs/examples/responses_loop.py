"""An agent loop over the Responses API that keeps its conversation in a store.

    python docs/examples/responses_loop.py [STORE]

Without a path the conversation goes into your own store, where `backscroll` shows it. Run the program again, and the
conversation continues.

The model is a small server on this machine that answers in the format of the API, so that the program runs offline. To
use the real one, replace `create_response` by the OpenAI client, and leave the rest as it is:

    client = OpenAI()
    response = client.responses.create(model="gpt-5", input=items, tools=TOOLS, store=False)

`save_turn` takes the object that the client returns.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

from store import Json, Store

SESSION = "example:responses-loop"
TOOLS = [{"type": "function", "name": "disk_usage", "parameters": {"type": "object", "properties": {}}}]


# ── the agent ─────────────────────────────────────────────────────────────────────────────────────


def run_turn(store: Store, url: str, prompt: str) -> str:
    """Answer a prompt. Every request and its response are saved before the next one is sent."""
    new_items: list[Json] = [{"role": "user", "content": prompt}]
    while True:
        items = [*store.load_input_history(SESSION), *new_items]
        response = create_response(url, items)
        store.save_turn(SESSION, new_items, response)
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        if not calls:
            return "".join(block["text"] for item in response["output"] for block in item["content"])
        new_items = [run_tool(call) for call in calls]


def run_tool(call: Json) -> Json:
    total, used, _ = shutil.disk_usage("/")
    output = {"percent": round(100 * used / total)}
    return {"type": "function_call_output", "call_id": call["call_id"], "output": json.dumps(output)}


def create_response(url: str, items: list[Json]) -> Json:
    body = json.dumps({"model": "local", "input": items, "tools": TOOLS}).encode()
    with urlopen(Request(url, body, {"Content-Type": "application/json"})) as answer:  # noqa: S310 (our own server)
        return json.load(answer)


# ── a model on this machine ───────────────────────────────────────────────────────────────────────


class LocalModel(BaseHTTPRequestHandler):
    """Answers in the format of the Responses API: it calls the tool once, and then says what the tool returned."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        items = request["input"]
        response = {
            "id": f"resp_{len(items)}",
            "object": "response",
            "model": request["model"],
            "output": [self.answer(items)],
            "usage": {"input_tokens": 20 * len(items), "output_tokens": 10, "total_tokens": 20 * len(items) + 10},
        }
        body = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def answer(self, items: list[Json]) -> Json:
        if items[-1].get("type") != "function_call_output":
            name, call_id = "disk_usage", f"call_{len(items)}"
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}
        percent = json.loads(items[-1]["output"])["percent"]
        prompts = [item for item in items if item.get("role") == "user"]
        text = f"The disk is {percent} % full. This was question {len(prompts)}."
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": f"msg_{len(items)}", "role": "assistant", "content": content}

    def log_message(self, *_: object) -> None:
        """Print nothing for each request."""


@contextmanager
def local_model() -> Iterator[str]:
    """Run the server, and yield the address of its endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), LocalModel)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/responses"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# ── the program ───────────────────────────────────────────────────────────────────────────────────


def print_stored(store: Store) -> None:
    session = store.get_session(SESSION)
    print(f"\nStored in {store.path}: {session.turns} turns, {session.tokens_total} tokens.")
    for turn in store.chains.turns(session.key)[1:]:
        print(f"{turn.n}. {turn.prompt}")
        for call in turn.tool_calls:
            print(f"   {call.name} -> {call.result} ({call.status})")
        print(f"   {turn.entries[-1].text}")


def main() -> None:
    with Store.open(sys.argv[1] if len(sys.argv) > 1 else None) as store, local_model() as url:
        store.ensure_session(SESSION, title="Example: Responses API", model="local")
        for prompt in ("How full is the disk?", "And now?"):
            print(f"> {prompt}\n{run_turn(store, url, prompt)}")
        print_stored(store)


if __name__ == "__main__":
    main()
