"""The HTTP side: console, avatar page, health and metrics. Devices never talk to it.

It stands beside the WebSocket server, which does not know it; whatever happens here harms nothing there.
"""
