"""`hermes-mobile send`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import trio
from attrs import field, frozen

from hermes_mobile.cli import remote
from hermes_mobile.cli.conventions import config_option, examples, version_option
from hermes_mobile.client import ClientError, Device, MediaOut, open_client
from hermes_mobile.client.link import over_tcp, over_unix
from hermes_mobile.client.media import kind_out
from hermes_mobile.protocol import fields
from hermes_mobile.protocol.errors import ProtocolError
from hermes_mobile.protocol.limits import MAX_MEDIA_BYTES, MAX_TEXT_CHARS, MIB
from hermes_mobile.protocol.slicing import pieces
from hermes_mobile.protocol.uploads import guess_mime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from ssl import SSLContext

    from hermes_mobile.client.link import Endpoint

LARGE_BYTES: Final = MIB
"""From here on a file is worth a progress bar."""
SERVICE_HINT: Final = "; with one of the server's MOBILE_DELIVER_TOKENS anyone may deliver"


@frozen
class Way:
    """How to reach the server."""

    url: str
    token: str = field(repr=False)
    socket: Path | None = None
    """The server's for deliveries, on which no token is needed."""
    tls: SSLContext | None = None
    """How its certificate is judged; None: as the system does."""


@frozen
class Attachment:
    kind: MediaOut
    mime: str
    filename: str = field(repr=False)
    data: bytes = field(repr=False)


def _target(_ctx: click.Context, _param: click.Parameter, address: str) -> str:
    try:
        return fields.device_address(address, "--to")
    except ProtocolError as refusal:
        raise click.BadParameter(refusal.message.removeprefix("--to: ")) from None


@click.command(
    epilog=examples(
        'hermes-mobile send --to mobile:tel-1 "The backup is done."',
        "df -h | hermes-mobile send --to mobile:tel-1 --keep -",
        'hermes-mobile send --to mobile:tel-1 --file chart.png "Today"',
        "hermes-mobile send --url wss://agent.example.com/ws --token-file token --to tel-1 Hello",
    )
)
@click.argument("text", metavar="[TEXT|-]", default="")
@click.option(
    "--to",
    "target",
    metavar="mobile:ID",
    default="",
    callback=_target,
    help="The device.  [default: the server's MOBILE_HOME_DEVICE]",
)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file to deliver, with the text or alone; up to 8 MiB.",
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in MediaOut]),
    help="What the file is.  [default: guessed from its name]",
)
@click.option("--keep", is_flag=True, help="Keep it for a device that is away.")
@remote.url_option
@remote.token_file_option
@config_option
@version_option
def send(
    text: str,
    target: str,
    path: Path | None,
    kind: str | None,
    keep: bool,
    url: str | None,
    token_file: Path | None,
    config: Path | None,
) -> None:
    """Deliver a text, a file, or both to a device. "-" reads the text from standard input.

    It goes over the server's socket for deliveries (MOBILE_DELIVER_SOCKET) where that is there, which
    needs no token, unless --url or --token-file is given. Else the token is one of
    MOBILE_DELIVER_TOKENS where that is set, or MOBILE_TOKEN. A long text goes as several messages.

    The exit status is 0 when it was delivered, or kept; 3 when the device is offline, 4 when the
    server refuses, 5 when there is no server.
    """
    texts = split(read_standard_input() if text == "-" else text)
    if kind is not None and path is None:
        raise click.UsageError("--kind: there is no --file")
    attachment = None if path is None else read_file(path, kind)
    if not texts and attachment is None:
        raise click.UsageError("nothing to deliver: a text, - or --file is needed")
    way = find_way(url, token_file, config)
    try:
        with progress(attachment) as told:
            remote.run(partial(deliver, way, target, texts, attachment, keep, told))
    except ClientError as error:
        raise remote.error_of(error, SERVICE_HINT) from error


def find_way(url: str | None, token_file: Path | None, config: Path | None) -> Way:
    """*Errors*: ConfigurationError; UsageError without a token where one is needed."""
    if not url and not token_file:
        path = remote.deliver_socket(config)
        if path is not None:
            url_path = remote.setting("MOBILE_PATH", config)
            return Way(f"ws://localhost{url_path}", "", path)
    token = None if token_file else remote.deliver_token(config)
    token = token or remote.app_token(config, token_file)
    return Way(url or remote.server_url(config), token, tls=remote.trust(url, config))


def read_standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise click.UsageError("-: standard input is not UTF-8") from None


def split(text: str) -> list[str]:
    """The text as `deliver` frames take it: up to 12,000 code points each, none of them blank."""
    return [piece for piece in pieces(text, MAX_TEXT_CHARS) if piece.strip()]


def read_file(path: Path, kind: str | None) -> Attachment:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_MEDIA_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"--file cannot be read: {error.strerror}") from None
    if len(data) > MAX_MEDIA_BYTES:
        raise click.UsageError(f"--file: at most {MAX_MEDIA_BYTES // MIB} MiB")
    if not data:
        raise click.UsageError("--file: an empty file")
    mime = guess_mime(path.name)
    return Attachment(guessed_kind(mime) if kind is None else MediaOut(kind), mime, path.name, data)


def guessed_kind(mime: str) -> MediaOut:
    """Sound of any format is shown as a voice message: there is no other kind that plays it."""
    return MediaOut.VOICE if mime.startswith("audio/") else kind_out(mime)


@contextmanager
def progress(attachment: Attachment | None) -> Iterator[Callable[[int], object]]:
    """A progress bar for a large file on a terminal; yields what is told of the bytes on the wire."""
    if attachment is None or len(attachment.data) < LARGE_BYTES or not sys.stderr.isatty():
        yield lambda _: None
        return
    in_base64 = len(attachment.data) * 4 // 3
    with click.progressbar(length=in_base64, label="Sending", file=sys.stderr) as bar:
        yield bar.update


async def deliver(
    way: Way,
    target: str,
    texts: list[str],
    attachment: Attachment | None,
    keep: bool,
    told: Callable[[int], object],
) -> None:
    """Deliver one after the other, the file with the last text. *Errors*: ClientError."""

    async def open_stream(endpoint: Endpoint) -> trio.abc.Stream:
        open_it = over_tcp(way.tls) if way.socket is None else over_unix(way.socket)
        return ToldStream(await open_it(endpoint), told)

    *first, last = texts or [""]
    # Without an id of its own it is a passing device: it takes nobody's place, and leaves nothing.
    service = Device(name="hermes-mobile send")
    async with open_client(
        way.url, token=way.token, device=service, retry=False, open_stream=open_stream
    ) as client:
        for text in first:
            await client.deliver(target, text, keep=keep)
        if attachment is None:
            await client.deliver(target, last, keep=keep)
        else:
            await client.deliver(
                target,
                last,
                file=attachment.data,
                kind=attachment.kind,
                filename=attachment.filename,
                mime=attachment.mime,
                keep=keep,
            )


class ToldStream(trio.abc.Stream):
    """A stream that tells how many bytes of each write have gone out."""

    def __init__(self, stream: trio.abc.Stream, told: Callable[[int], object]) -> None:
        self._stream = stream
        self._told = told

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)
        self._told(len(data))

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()
