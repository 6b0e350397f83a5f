"""Servers to compare with: one and the same protocol work, on other libraries.

They are as short as an operator would write them, and do less than hermes-mobile: no queue, no idle
timer, no confirmation, no takeover, no cards. What they do not do makes them faster, not slower.
"""
