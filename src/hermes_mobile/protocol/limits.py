"""Every number that protocol v1 fixes, with its unit. What an operator may change is a setting."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

PROTOCOL_VERSION: Final = 1
"""Declared in `ready.v`."""

# Sizes, in bytes

MAX_FRAME_BYTES: Final = 16 * MIB
"""One WebSocket message, whatever its fragmentation (D3)."""
MAX_HELLO_BYTES: Final = 64 * KIB
"""The first frame (D6)."""
MAX_AUDIO_BYTES: Final = 8 * MIB
"""A voice recording, decoded."""
MAX_MEDIA_BYTES: Final = 8 * MIB
"""One file in either direction, decoded."""
MEDIA_CHUNK_BYTES: Final = 3 * MIB
"""The usual piece of a large file, decoded (D31)."""
MIN_MEDIA_CHUNK_BYTES: Final = 4 * KIB
"""The smallest piece that the ceiling on parts allows for."""
MAX_UPLOAD_BUFFER_BYTES: Final = 8 * MIB
"""All unfinished uploads of one device together (D17)."""
MAX_PING_TS_BYTES: Final = KIB
"""`ping.ts`, encoded as JSON (D24)."""

# Counts

MAX_MEDIA_PARTS: Final = -(-MAX_MEDIA_BYTES // MIN_MEDIA_CHUNK_BYTES)
"""Parts of one file: 2048."""
MAX_OPEN_UPLOADS: Final = 8
"""Unfinished multi-part uploads of one device."""
DEDUP_IDS_PER_DEVICE: Final = 4_000
DEDUP_IDS_TOTAL: Final = 40_000
CLOSED_CARDS_REMEMBERED: Final = 256
"""Per session: a late second answer is told what was applied (D21)."""

# Lengths, in code points

MAX_TEXT_CHARS: Final = 12_000
"""`text` and `caption` from the app, `deliver.text`."""
REPLY_PIECE_CHARS: Final = 3_500
"""One `message` frame (D28)."""
MAX_ID_CHARS: Final = 128
MAX_NAME_CHARS: Final = 120
"""Each string of `device` and `user`."""
MAX_FILENAME_CHARS: Final = 200

MAX_SAFE_INTEGER: Final = 2**53
"""An identifier may be an integer up to this, either sign (D12)."""

# Durations, in seconds: the reference's defaults, which settings may change

HELLO_TIMEOUT: Final = 15.0
TYPING_IDLE: Final = 3.0
PROMPT_TTL: Final = 300.0
DEDUP_WINDOW: Final = 600.0
