"""Compact JSON in UTF-8, as both codecs write it."""

from typing import Any

import orjson

from hermes_mobile.protocol.fields import Fields


def compact_json(fields: Fields) -> bytes:
    """Write `fields`; never fails: a lone surrogate, which UTF-8 has no bytes for, becomes U+FFFD."""
    try:
        return orjson.dumps(fields)
    except TypeError:  # What else is in a frame can be serialized.
        return orjson.dumps(_without_surrogates(fields))


def present(fields: Fields) -> Fields:
    """The fields that say something: neither empty, nor false, nor None."""
    return {name: value for name, value in fields.items() if value}


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {name: _without_surrogates(each) for name, each in value.items()}
        case list() | tuple():
            return [_without_surrogates(each) for each in value]
        case _:
            return value
