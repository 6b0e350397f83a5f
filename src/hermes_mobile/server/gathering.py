"""What a task says between two of its waits goes out in one write, by the task itself.

Whoever says something is about to wait: for the agent's model, for the peer's next frame. Writing just
then needs no wake-up of the writer, which is most of what a short reply costs, and delays nothing:
what an agent says is out before the agent is waited for.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from hermes_mobile.server.writer import Writer

Result = TypeVar("Result")


@types.coroutine
def gathering(
    work: Coroutine[Any, Any, Result], writer: Callable[[], Writer | None]
) -> Generator[Any, Any, Result]:
    """Await `work`; while it runs, `writer` gathers, and writes whenever it waits and at its end.

    `writer` is asked anew each time that `work` goes on: connections come and go while it waits.
    """
    go_on: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        gatherer = writer()
        if gatherer is not None:
            gatherer.gather()
        try:
            wait = go_on(value)
        except StopIteration as done:
            result: Result = done.value
            return result
        finally:
            value = None  # it may be large, or an exception, which would refer to itself
            if gatherer is not None:
                gatherer.write_gathered()
        try:
            value = yield wait
            go_on = work.send
        except BaseException as error:  # noqa: BLE001 - it is passed on, whatever it is
            value = error
            go_on = work.throw
