"""hermes-mobile: a Trio server through which people's own apps talk to an AI agent."""

__version__ = "1.0.0"
