"""A plugin for Hermes in tests: the tool `both`, which runs commands at the same time."""

import contextvars
from concurrent.futures import ThreadPoolExecutor

SCHEMA = {
    "name": "both",
    "description": "Run commands at the same time.",
    "parameters": {
        "type": "object",
        "properties": {"commands": {"type": "array", "items": {"type": "string"}}},
        "required": ["commands"],
    },
}


def register(ctx):
    ctx.register_tool("both", "both", SCHEMA, both)


def both(arguments, **_):
    from tools.terminal_tool import terminal_tool  # noqa: PLC0415 - only there in Hermes

    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(contextvars.copy_context().run, terminal_tool, command)
            for command in arguments["commands"]
        ]
        return " ".join(each.result() for each in running)
