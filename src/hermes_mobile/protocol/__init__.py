"""Protocol v1 as pure values and rules.

Nothing here knows a socket, a task, a clock or a log: time is an argument, bytes come in, values go
out. `docs/protocol.md` is the prose; rules are cited by their number there (D1 to D40).
"""
