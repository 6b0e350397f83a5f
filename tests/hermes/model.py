"""A model that Hermes can talk to: OpenAI's chat completions on loopback, and no thinking at all.

What a person says decides what it does:

    run A            calls the terminal with command A
    both A ;; B      runs A and B at the same time, by a tool of the tests
    ask Q | A | B    asks with the clarify tool; without choices, openly
    say TEXT         says TEXT
    stream N         says N words, a little apart
    hold             says nothing until `release`
    anything else    is echoed

What a tool returned is told back as `done: ...`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

NOTE = re.compile(r"\[System note:.*?\]\s*?(?:\n\n|\Z)", re.DOTALL)
RESUMED = "[System note: The previous turn was interrupted"
"""How Hermes begins a turn that it resumes."""
CALLS = count(1)
"""Hermes drops what a second call of the same id returned."""
PATIENCE = 60.0
"""Seconds after which whoever holds its breath breathes again."""
PAUSE = 0.05
"""Seconds between the words of a stream."""


class Model:
    """Serves on a free port of loopback until it is closed."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        """The bodies of the requests for an answer, oldest first."""
        self._released = threading.Event()
        self.held = threading.Event()
        """Set while an answer is held back."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                """Keep quiet."""

            def do_GET(self) -> None:
                listing = {"object": "list", "data": [{"id": "mock", "object": "model"}]}
                self.answer("application/json", json.dumps(listing).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.requests.append(body)
                if body.get("stream"):
                    self.stream(model.think(body))
                else:
                    message = whole(model.think(body))
                    self.answer("application/json", json.dumps(completion(message)).encode())

            def answer(self, kind: str, data: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, deltas: Iterator[dict[str, Any]]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    for event in events(deltas):
                        self.wfile.write(b"data: " + event.encode() + b"\n\n")
                        self.wfile.flush()
                except OSError:
                    """Hermes has heard enough: it was stopped."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def release(self) -> None:
        """Let the answer that is held back go."""
        self._released.set()

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def think(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The pieces of an answer, as they come to it."""
        messages = body["messages"]
        offered = {tool["function"]["name"] for tool in body.get("tools") or ()}
        results = trailing_results(messages)
        if results:
            yield {"content": "done: " + " / ".join(results)}
            return
        verb, rest = wish(messages)
        match verb:
            case "run" if "terminal" in offered:
                yield {"tool_calls": [call("terminal", command=rest)]}
            case "both" if "both" in offered:
                yield {"tool_calls": [call("both", commands=rest.split(" ;; "))]}
            case "ask" if "clarify" in offered:
                question, *choices = (part.strip() for part in rest.split("|"))
                asked = {"question": question} | ({"choices": choices} if choices else {})
                yield {"tool_calls": [call("clarify", **asked)]}
            case "say":
                yield {"content": rest}
            case "stream":
                for number in range(int(rest)):
                    threading.Event().wait(PAUSE)
                    yield {"content": f"{' ' if number else ''}word{number}"}
            case "hold":
                self._released.clear()
                yield {"content": "I am thinking, "}
                self.held.set()
                self._released.wait(PATIENCE)
                self.held.clear()
                yield {"content": "and have thought."}
            case _:
                yield {"content": f"echo: {verb} {rest}".rstrip()}


def call(name: str, **arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{next(CALLS)}", "type": "function", "function": function}


def wish(messages: list[dict[str, Any]]) -> tuple[str, str]:
    """What the person asked for last, as a verb and the rest: Hermes' own notes are not heard.

    What was interrupted before it had an answer stands before it, in the same message.
    """
    said = [text(message["content"]) for message in messages if message["role"] == "user"]
    _, resumed, rest = said[-1].rpartition(RESUMED)
    heard = NOTE.sub("", resumed + rest).strip() or "restored"
    verb, _, rest = heard.splitlines()[-1].partition(" ")
    return verb, rest


def trailing_results(messages: list[dict[str, Any]]) -> list[str]:
    """What the tools of the last answer returned, cut short."""
    results: list[str] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        results.insert(0, text(message["content"])[:600])
    return results


def text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return str(content or "")


def events(deltas: Iterator[dict[str, Any]]) -> Iterator[str]:
    """An answer as server-sent events."""
    reason = "stop"
    yield json.dumps(chunk({"role": "assistant", "content": ""}))
    for delta in deltas:
        if calls := delta.get("tool_calls"):
            reason = "tool_calls"
            delta["tool_calls"] = [{"index": index, **each} for index, each in enumerate(calls)]
        yield json.dumps(chunk(delta))
    yield json.dumps(chunk({}, reason))
    yield "[DONE]"


def whole(deltas: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """An answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for delta in deltas:
        message["content"] += delta.get("content", "")
        if calls := delta.get("tool_calls"):
            message["tool_calls"] = calls
    return message


def completion(message: dict[str, Any]) -> dict[str, Any]:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return envelope("chat.completion") | {"choices": [choice]}


def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return envelope("chat.completion.chunk") | {"choices": [choice]}


def envelope(kind: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "mock", "usage": usage}
