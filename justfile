# The verbs of this house. They need a venv with the `dev` extra, as the README's second command makes it.

export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# list the verbs
_default:
    @just --list --unsorted

# format the code and mend what can be mended
fmt:
    ruff format
    ruff check --fix

# judge format and style
lint:
    ruff format --check
    ruff check

# check the types, strictly
types:
    mypy

# run the fast tests, or some of them: just test -k cards
test *ARGS:
    pytest -q -m "not slow" {{ ARGS }}

# run the slow tests: real sockets and processes, under load
test-slow *ARGS:
    pytest -q -m slow {{ ARGS }}

# the real Hermes Agent with our plugin; the first run installs it, below build
hermes *ARGS:
    pytest -q tests/hermes {{ ARGS }}

# measure what the fast tests reach: at least 95 % of all branches
cover:
    coverage erase
    coverage run -m pytest -q -m "not slow"
    coverage combine -q
    coverage report

# build the wheel and run all tests, fast and slow, against it in a venv that holds nothing else of ours
wheel:
    #!/usr/bin/env bash
    set -euo pipefail
    place="$(mktemp -d)"
    trap 'rm -rf "$place"' EXIT
    python -m build -q --outdir "$place"  # the wheel is made from the sdist, so that is known to be whole too
    python -m venv "$place/venv"
    export PATH="$place/venv/bin:$PATH"
    wheel="$(echo "$place"/*.whl)"
    pip install -q "$wheel[test]"
    python -P -c "import hermes_mobile as ours; assert ours.__file__.startswith('$place'), ours.__file__"
    pytest -q -p no:cacheprovider

# docs/operations.md to the letter, on a bare Debian that is booted; as root, it takes minutes
newcomer:
    python tests/newcomer.py

# check and test the npm package
client:
    cd src/hermes-mobile-client && npm ci && npm test

# check and test the console's sources, and that what is committed was built from them
console:
    cd src/hermes-mobile-console && npm ci && npm test && npm run check

# the real server, with the npm package in Node and the pages in headless Chromium, if there is one
browser: client
    cd tests/browser && npm ci && npm test

# put a server under load, or compare this one with others: just bench turns --start
bench *ARGS:
    python -m bench {{ ARGS }}

# each scenario and each peer of the bench, once and tiny
bench-tiny:
    pytest -q -m slow tests/bench

# run the server with the demo agent
serve *ARGS:
    hermes-mobile serve {{ ARGS }}

# all of it, as CI does
test-all: lint types cover wheel bench-tiny client console browser
