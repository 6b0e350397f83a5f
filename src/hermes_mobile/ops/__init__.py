"""The machine below: its logs, its service manager, its memory and its disk."""
