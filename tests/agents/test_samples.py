"""The sample files are what they claim to be, as far as the standard library can tell."""

import re
import struct
import zlib
from collections.abc import Iterator

from hermes_mobile.agents.demo import ANIMATION, DOCUMENT, IMAGE, VIDEO, VOICE


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (type, body), each with its checksum verified."""
    at = 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        (crc,) = struct.unpack_from(">I", data, at + 8 + length)
        assert crc == zlib.crc32(kind + body)
        yield kind, body
        at += 12 + length


def gif_sub_blocks(data: bytes, at: int) -> int:
    """Return where the chain of sub-blocks that starts at `at` ends."""
    while data[at]:
        at += data[at] + 1
    return at + 1


def gif_frames(data: bytes) -> int:
    """Walk the blocks to the trailer, which is the last byte; return the number of frames."""
    flags = data[10]
    at = 13 + (3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0)
    frames = 0
    while data[at] != 0x3B:
        if data[at] == 0x21:
            at = gif_sub_blocks(data, at + 2)
        else:
            assert data[at] == 0x2C
            flags = data[at + 9]
            at += 10 + (3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0)
            at = gif_sub_blocks(data, at + 1)
            frames += 1
    assert at == len(data) - 1
    return frames


def ogg_crc(page: bytes) -> int:
    """Compute the checksum of a page: CRC-32 with Ogg's parameters, its own field zeroed."""
    crc = 0
    for byte in page[:22] + bytes(4) + page[26:]:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ 0x04C11DB7 if crc & 0x80000000 else crc << 1) & 0xFFFFFFFF
    return crc


def ogg_pages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield (flags, granule, sequence number, body) of each page, with its checksum verified."""
    at = 0
    while at < len(data):
        magic, version, flags, granule, _, number, crc, segments = struct.unpack_from(
            "<4sBBqIIIB", data, at
        )
        assert (magic, version) == (b"OggS", 0)
        body = at + 27 + segments
        end = body + sum(data[at + 27 : body])
        assert crc == ogg_crc(data[at:end])
        yield flags, granule, number, data[body:end]
        at = end


def mp4_boxes(data: bytes) -> dict[bytes, bytes]:
    """Return the boxes of one level, which fill it exactly, by type."""
    boxes: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        boxes[kind] = data[at + 8 : at + size]
        assert 8 <= size <= len(data) - at
        at += size
    return boxes


def test_the_image_is_a_png() -> None:
    """Its chunks are intact, and its pixels inflate to the size that the header announces."""
    assert IMAGE.data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks = list(png_chunks(IMAGE.data))
    width, height, depth, colour = struct.unpack_from(">IIBB", chunks[0][1])
    assert [kind for kind, _ in chunks] == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    assert (width, height, colour) == (256, 256, 3)
    row = 1 + -(-width * depth // 8)
    assert len(zlib.decompress(chunks[2][1])) == height * row


def test_the_animation_is_a_gif_that_moves() -> None:
    """Its blocks lead from the header to the trailer, over several frames that loop for ever."""
    assert ANIMATION.data.startswith(b"GIF89a")
    assert b"NETSCAPE2.0\x03\x01\x00\x00\x00" in ANIMATION.data
    assert gif_frames(ANIMATION.data) > 5


def test_the_voice_message_is_opus_in_ogg() -> None:
    """Its pages are intact and in order, from the Opus head to a last page after 1.5 s."""
    pages = list(ogg_pages(VOICE.data))
    assert [number for _, _, number, _ in pages] == list(range(len(pages)))
    assert pages[0][3].startswith(b"OpusHead\x01\x01")
    assert pages[1][3].startswith(b"OpusTags")
    assert (pages[0][0], pages[-1][0]) == (2, 4)
    (pre_skip,) = struct.unpack_from("<H", pages[0][3], 10)
    assert pages[-1][1] - pre_skip == 1.5 * 48_000


def test_the_video_is_an_mp4_that_can_start_before_it_is_whole() -> None:
    """Its boxes fill it exactly, the index stands before the pictures, and it lasts 2 s."""
    boxes = mp4_boxes(VIDEO.data)
    assert [kind for kind in boxes if kind != b"free"] == [b"ftyp", b"moov", b"mdat"]
    header = mp4_boxes(boxes[b"moov"])[b"mvhd"]
    scale, length = struct.unpack_from(">II", header, 12)
    assert length / scale == 2
    assert b"avc1" in boxes[b"moov"]


def test_the_document_is_a_pdf() -> None:
    """Its cross-reference table points at its objects, and its stream is as long as it says."""
    data = DOCUMENT.data
    assert data.startswith(b"%PDF-1.4\n")
    assert data.endswith(b"%%EOF\n")
    [start] = re.findall(rb"startxref\n(\d+)\n", data)
    table = data[int(start) :]
    assert table.startswith(b"xref\n0 7\n")
    offsets = [int(entry) for entry in re.findall(rb"(\d{10}) 00000 n \n", table)]
    assert len(offsets) == 6
    for number, offset in enumerate(offsets, 1):
        assert data[offset:].startswith(b"%d 0 obj\n" % number)
    [(length, stream)] = re.findall(rb"/Length (\d+) >>\nstream\n(.*?)endstream", data, re.DOTALL)
    assert int(length) == len(stream)
