"""What may be logged of an exception (D39)."""

from __future__ import annotations


def where(error: BaseException) -> dict[str, str]:
    """The exception's type and place, never its text: that may hold what a person said."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    place = ""
    if traceback is not None:
        code = traceback.tb_frame.f_code
        place = f"{code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno}"
    return {"error": type(error).__name__, "at": place}
