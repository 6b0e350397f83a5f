"""The agent link: a program of its own is the agent. The protocol: docs/agent-link.md."""

from hermes_mobile.agents.link.agent import LinkAgent

__all__ = ["LinkAgent"]
