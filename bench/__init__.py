"""Load tests of any server of protocol v1, and the comparison with other libraries.

`python -m bench --help`; what the figures mean stands in `docs/bench.md`.
"""
