"""The fields of a frame from the app: each function judges one JSON value.

`name` is what the refusal calls the field. JSON `null` in an optional field counts as absent, in a
required one as missing (D12).

*Errors*: `bad_frame` for a wrong shape, `too_big` for a length beyond its limit.
"""

import re
import string
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import pybase64

from hermes_mobile.protocol.errors import ErrorCode, ProtocolError, bad_frame, too_big
from hermes_mobile.protocol.limits import (
    MAX_FILENAME_CHARS,
    MAX_ID_CHARS,
    MAX_NAME_CHARS,
    MAX_SAFE_INTEGER,
    MAX_TEXT_CHARS,
)

Fields: TypeAlias = dict[str, Any]
Word = TypeVar("Word", bound=StrEnum)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LEADING_DOTS = re.compile(r"^[\s.]+")
_DELETE_WHITE_SPACE = str.maketrans("", "", string.whitespace)
_ADDRESS = "mobile:"


def short_name(value: Any, name: str, limit: int = MAX_NAME_CHARS) -> str:
    """A string or an integer, trimmed and cut to `limit` code points; empty when absent (D12)."""
    if isinstance(value, str):
        return value.strip()[:limit].rstrip()
    if value is None:
        return ""
    if type(value) is int and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return str(value)
    raise bad_frame(f"{name}: a string, or an integer within 2^53 of zero")


def identifier(value: Any, name: str, limit: int = MAX_ID_CHARS) -> str:
    """A name without control characters; empty when absent (D12)."""
    cut = short_name(value, name, limit)
    if _CONTROL.search(cut):
        raise bad_frame(f"{name}: no control characters")
    return cut


def required_identifier(value: Any, name: str) -> str:
    """An identifier that is not empty (D12)."""
    cut = identifier(value, name)
    if not cut:
        raise bad_frame(f"{name}: missing")
    return cut


def device_address(value: Any, name: str) -> str:
    """The device id in `mobile:<id>` or in a bare id; empty when absent (D25)."""
    if isinstance(value, str):
        value = value.strip()
        if value == _ADDRESS:
            raise bad_frame(f"{name}: mobile:<device id>, or the bare id")
        value = value.removeprefix(_ADDRESS)
    return identifier(value, name, MAX_NAME_CHARS)


def filename(value: Any, name: str) -> str:
    """A file's name, cleaned; empty when absent (D12, D18)."""
    # Cleaned before it is cut: a long directory must not displace the name.
    return clean_filename(value if isinstance(value, str) else short_name(value, name))


def clean_filename(name: str) -> str:
    """`name` without directory, control characters and leading dots, at most 200 long (D18)."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return _LEADING_DOTS.sub("", _CONTROL.sub("", last))[:MAX_FILENAME_CHARS].rstrip()


def keyword(value: Any, name: str) -> str:
    """A required word of the protocol's vocabulary, trimmed and in lower case (D14)."""
    if value is None:
        raise bad_frame(f"{name}: missing")
    if not isinstance(value, str):
        raise bad_frame(f"{name}: a string is expected")
    word = value.strip().lower()
    if not word:
        raise bad_frame(f"{name}: missing")
    return word


def one_of(vocabulary: type[Word], value: Any, name: str) -> Word:
    """A required word of `vocabulary`.

    *Errors*: `unsupported_frame` for any other.
    """
    try:
        return vocabulary(keyword(value, name))
    except ValueError:
        allowed = f"{name}: one of {', '.join(vocabulary)}"
        raise ProtocolError(ErrorCode.UNSUPPORTED_FRAME, allowed) from None


def prose(value: Any, name: str) -> str:
    """What a person wrote, untrimmed; empty when absent or blank (D15)."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_frame(f"{name}: a string is expected")
    if len(value) > MAX_TEXT_CHARS:
        raise too_big(f"{name}: at most {MAX_TEXT_CHARS} characters")
    return "" if value.isspace() else value


def required_prose(value: Any, name: str) -> str:
    """What a person wrote, not blank (D15)."""
    words = prose(value, name)
    if not words:
        raise bad_frame(f"{name}: missing or empty")
    return words


def integer(value: Any, name: str, default: int) -> int:
    """An integer; a boolean is none, nor is 1.0 (D17)."""
    if value is None:
        return default
    if type(value) is not int:
        raise bad_frame(f"{name}: an integer is expected")
    return value


def flag(value: Any, name: str) -> bool:
    """A boolean; false when absent."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise bad_frame(f"{name}: true or false is expected")
    return value


def record(value: Any, name: str) -> Fields:
    """An object; empty when absent."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_frame(f"{name}: an object is expected")
    return value


def binary(value: Any, name: str, limit: int) -> bytes:
    """Required bytes in base64: standard alphabet, padded, white space tolerated (D16)."""
    if value is None:
        raise bad_frame(f"{name}: missing")
    if not isinstance(value, str):
        raise bad_frame(f"{name}: a base64 string is expected")
    longest = -(-limit // 3) * 4
    if len(value) > longest:
        value = value.translate(_DELETE_WHITE_SPACE)
        if len(value) > longest:
            raise too_big(f"{name}: at most {limit} bytes")
    data = _from_base64(value)
    if data is None:  # Most encoders wrap no lines, and deleting costs more than decoding.
        data = _from_base64(value.translate(_DELETE_WHITE_SPACE))
    if not data:
        raise bad_frame(f"{name}: base64 in the standard alphabet, padded and not empty")
    if len(data) > limit:
        raise too_big(f"{name}: at most {limit} bytes")
    return data


def _from_base64(encoded: str) -> bytes | None:
    try:
        return pybase64.b64decode(encoded, validate=True)
    except ValueError:
        return None
