"""An agent as a process, to be killed: plain sockets, and what it does is what a person tells it.

`work` is worked on for ever, `ask` asks, `file` sends half a file, everything else is echoed. Each state
that it has reached is a line on its standard output.
"""

import base64
import json
import os
import socket
import sys
import time

FILE = base64.b64encode(bytes(1 << 20)).decode()


def main() -> None:
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ["MOBILE_AGENT_SOCKET"])
    say(link, t="hello", v=1, name="mortal")
    for line in link.makefile():
        match json.loads(line):
            case {"t": "ready"}:
                tell("ready")
            case {"t": "turn", "turn": turn, "input": {"text": text}}:
                act(link, turn, text)


def act(link: socket.socket, turn: str, text: str) -> None:
    match text:
        case "work":
            pass
        case "ask":
            say(link, t="ask", id="1", turn=turn, kind="exec_approval", command="ls")
        case "file":
            message = {"t": "file", "id": "1", "turn": turn, "kind": "document", "data": FILE}
            link.sendall(json.dumps(message).encode()[: len(FILE) // 2])
        case _:
            say(link, t="reply", id="1", turn=turn, text=text)
            say(link, t="end", turn=turn)
    tell(text)
    if text == "file":
        time.sleep(1000)


def tell(state: str) -> None:
    sys.stdout.write(f"{state}\n")
    sys.stdout.flush()


def say(link: socket.socket, **message: object) -> None:
    link.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
