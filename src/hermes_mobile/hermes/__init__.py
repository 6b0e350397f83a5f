"""The plugin that makes a hermes-mobile server a platform of Hermes Agent's gateway.

It runs inside Hermes, on asyncio, and needs what Hermes ships and nothing else: neither Trio nor the
rest of this package. So it imports its own modules by their place, and works as well where
`hermes-mobile hermes-plugin install` copies it. How to set it up: docs/hermes.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import targets

if TYPE_CHECKING:
    from .adapter import MobileAdapter

HINT = (
    "The person reads and answers you in an app on their phone. Markdown is shown as it is written: "
    "keep it light. To send a file, write MEDIA:/absolute/path on a line of its own: images, audio, "
    "video and documents up to 8 MiB arrive as such."
)


def register(ctx: Any) -> None:
    """Called by Hermes: makes the platform `mobile` known to it."""
    from .delivery import deliver

    ctx.register_platform(
        name="mobile",
        label="Mobile",
        adapter_factory=_make_adapter,
        check_fn=lambda: True,  # there is nothing to install
        is_connected=lambda _config: _configured(),
        install_hint="set MOBILE_AGENT_SOCKET, or MOBILE_AGENT_PORT and MOBILE_AGENT_TOKEN",
        env_enablement_fn=_settings,
        cron_deliver_env_var="MOBILE_HOME_DEVICE",
        standalone_sender_fn=deliver,
        max_message_length=0,
        emoji="📱",
        platform_hint=HINT,
    )


def _make_adapter(config: Any) -> MobileAdapter:
    from .adapter import MobileAdapter

    return MobileAdapter(config)


def _configured() -> bool:
    """Whether the environment says where the server is."""
    return bool(os.environ.get("MOBILE_AGENT_SOCKET") or os.environ.get("MOBILE_AGENT_PORT"))


def _settings() -> dict[str, Any] | None:
    """What Hermes is to know of the platform by the environment alone."""
    if not _configured():
        return None
    home = targets.home_device()
    if not home:
        return {}
    return {"home_channel": {"chat_id": targets.chat_id(home), "name": home}}
