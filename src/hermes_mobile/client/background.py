"""Tasks beside a block."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def open_background() -> AsyncIterator[trio.Nursery]:
    """A nursery whose tasks end with the block.

    What the block raises comes out as it is, not in an ExceptionGroup, which whoever wrote the block
    does not expect of it. An exception of a task cancels the block, and comes out in a group.
    """
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except BaseException as error:  # noqa: BLE001 - it is raised anew outside
            raised = error
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised
