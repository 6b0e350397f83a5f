"""The house keeps its own rules: where things are, who may import whom, what every file may hold."""

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_mobile import __version__
from hermes_mobile.protocol.errors import ErrorCode
from hermes_mobile.server.settings import VARIABLES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "hermes_mobile"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
VECTORS = ROOT / "tests" / "vectors"

TOP_LEVEL = {
    *("pyproject.toml", "src", "tests", "bench", "docs", "justfile"),
    *("README.md", "LICENSE", "CHANGELOG.md"),
}
MAY_IMPORT = {
    "protocol": set(),
    "agents": {"protocol", "ops"},
    "testing": {"protocol", "agents", "server", "client"},
    "ops": set(),
    "hermes": set(),
    "server": {"protocol", "agents", "ops"},
    "client": {"protocol"},
    "conformance": {"protocol"},
    "http": {"protocol", "agents", "server", "ops"},
    "cli": {"protocol", "agents", "server", "client", "conformance", "http", "ops", "hermes"},
    "__main__": {"cli"},
}
"""Which parts of the package each part may use, beside itself."""
PURE = {
    *("__future__", "abc", "collections", "contextlib", "enum", "functools", "itertools", "math"),
    *("mimetypes", "pathlib.PurePosixPath", "re", "string", "typing"),
    *("attrs", "orjson", "pybase64", "regex"),
}
"""What `protocol` may use of the rest of the world: nothing that waits, tells the time or writes."""
THOUGHT = PURE | {"hashlib", "importlib", "pathlib", "secrets", "trio"}
"""And what agents may use: no socket, and nothing that knows one."""
PROGRAM = THOUGHT | {
    "os",
    "random",
    "shlex",
    "shutil",
    "signal",
    "structlog",
    "subprocess",
    "urllib",
}
"""And those that are a program beside the server: they start it, and tell the log how it fares."""

REFERENCE_LIMITS = {
    "PROTOCOL_VERSION": 1,
    "MAX_FRAME_BYTES": 16_777_216,
    "MAX_TEXT_CHARS": 12_000,
    "MAX_AUDIO_BYTES": 8_388_608,
    "MAX_MEDIA_BYTES": 8_388_608,
    "MEDIA_CHUNK_BYTES": 3_145_728,
    "MIN_MEDIA_CHUNK_BYTES": 4_096,
    "MAX_MEDIA_PARTS": 2_048,
    "REPLY_PIECE_CHARS": 3_500,
    "PROMPT_TTL": 300,
    "MAX_OPEN_UPLOADS": 8,
    "MAX_UPLOAD_BUFFER_BYTES": 8_388_608,
    "HELLO_TIMEOUT": 15,
    "TYPING_IDLE": 3,
}
"""The reference's table of constants; where it describes one, or says DEFAULT_, by our name for it."""
REFERENCE_FROM_APP = "hello text audio media prompt typing ping ack deliver"
REFERENCE_TO_APP = "ready message media prompt prompt_done avatar typing pong error delivered"
REFERENCE_ERRORS = (
    "bad_frame auth_failed forbidden unsupported_frame too_big device_offline auth_required "
    "internal_error"
)


def tracked() -> list[Path]:
    """Every file that is committed, or about to be."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],  # noqa: S607 - whichever git there is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).exists()]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def part_of(source: Path) -> str:
    """The part of the package that a file belongs to; the package's own `__init__` to none."""
    inside = source.relative_to(PACKAGE).parts
    return inside[0] if len(inside) > 1 else source.stem


def imported(source: Path) -> Iterator[str]:
    """Every name that a file imports, dotted, from its top level or not."""
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{each.name}" for each in names)
            case ast.ImportFrom(names=names):
                yield from (f".{each.name}" for each in names)


def cases_in(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            node.name.startswith("test_")
        ):
            yield node


def claims(file: Path) -> Iterator[str]:
    """The names and docstrings of a file's tests, and of the classes that hold state machines."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            yield ast.get_docstring(node) or ""


def vectors(name: str) -> list[dict[str, object]]:
    return list(json.loads((VECTORS / name).read_text()))


def shell_commands(page: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)\n```", page, re.DOTALL | re.MULTILINE)


def test_top_level() -> None:
    """The top level holds what the house is made of, and dot files."""
    names = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert {name for name in names if not name.startswith(".")} == TOP_LEVEL


def test_readme_begins_with_the_two_commands() -> None:
    """One command serves, the other checks everything, and CI is the second one to the letter."""
    serve, check = shell_commands((ROOT / "README.md").read_text())[:2]
    assert serve.endswith(".venv/bin/hermes-mobile serve")
    assert check.endswith(".venv/bin/just test-all")
    ci = (ROOT / ".ci" / "run").read_text()
    assert ci.endswith(f"\n{check}\n")
    assert [line for line in ci.splitlines() if "venv" in line] == [check]


def test_readme_has_every_setting() -> None:
    """The README's table has each variable, and no other."""
    page = (ROOT / "README.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `MOBILE_")]
    assert sorted(re.findall(r"`(MOBILE_\w+)`", "".join(rows))) == sorted(VARIABLES)


def test_readme_leads_to_every_page() -> None:
    """Each page of the docs, and of what lies below them, has a link in the README."""
    linked = re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text())
    pages = {name_of(path) for path in tracked() if path.match("docs/**/*.md")}
    assert pages - set(linked) == set()


def test_contributors_are_told_every_verb() -> None:
    """The verbs of the justfile and those in CONTRIBUTING are the same, but for `serve`."""
    justfile = (ROOT / "justfile").read_text()
    verbs = set(re.findall(r"^([a-z-]+)(?: \*ARGS)?:(?!=)", justfile, re.MULTILINE))
    told = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    rows = [line.split("|")[1] for line in told.splitlines() if line.startswith("| `just")]
    assert set(re.findall(r"`just ([a-z-]+)`", "".join(rows))) | {"serve"} == verbs


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_imports_point_downwards(source: Path) -> None:
    """No part uses one above it, and client and server never meet."""
    part = part_of(source)
    used = {name.split(".")[1] for name in imported(source) if name.startswith("hermes_mobile.")}
    allowed = {part, "__version__"} | (set() if part == "__init__" else MAY_IMPORT[part])
    assert used <= allowed
    if part == "hermes":  # a plugin, that also runs where it is copied: it knows only its own place
        assert "hermes_mobile" not in {name.partition(".")[0] for name in imported(source)}
    else:
        assert not [name for name in imported(source) if name.startswith(".")]


@pytest.mark.parametrize(
    ("source", "allowed"),
    [
        pytest.param(source, allowed, id=name_of(source))
        for part, pattern, allowed in (
            ("protocol", "**/*.py", PURE),
            ("agents", "*.py", THOUGHT),
            ("agents/acp", "*.py", PROGRAM),
        )
        for source in sorted((PACKAGE / part).glob(pattern))
    ],
)
def test_the_core_has_no_io(source: Path, allowed: set[str]) -> None:
    """`protocol` knows no Trio, socket, clock or log, and `agents` of those only Trio (D40)."""
    used = {name for name in imported(source) if not name.startswith("hermes_mobile.")}
    assert {name for name in used if not {name, name.partition(".")[0]} & allowed} == set()


def test_files_are_short() -> None:
    """A file of the package can be read in one sitting: it has at most 400 lines."""
    lengths = {name_of(source): len(source.read_text().splitlines()) for source in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_files_are_portable() -> None:
    """No committed file names a package index or a path of the machine it was written on."""
    foreign = re.compile(
        r"pyp[i]\.org|python[h]osted|registry\.npm[j]s|index-url|(?<![\w.}*])/(work|root|home)/"
    )
    found = {
        name_of(path): match[0]
        for path in tracked()
        if path != Path(__file__) and (match := foreign.search(path.read_text(errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize("file", TESTS, ids=name_of)
def test_every_test_says_what_it_proves(file: Path) -> None:
    """Each test has a docstring: a sentence."""
    mute = [
        test.name for test in cases_in(file) if not (ast.get_docstring(test) or "").endswith(".")
    ]
    assert mute == []


def test_every_decision_is_proved() -> None:
    """Each of the 40 decisions is named by a test, in its name or its docstring."""
    others = [file for file in TESTS if file != Path(__file__)]
    said = " ".join(claim for file in others for claim in claims(file))
    proved = {int(number) for number in re.findall(r"(?:\b|_)[dD](\d+)(?:\b|_)", said)}
    assert sorted(set(range(1, 41)) - proved) == []


def test_every_constant_of_the_reference_is_a_vector() -> None:
    """limits.json has the reference's constants with the reference's values, and 1008 refuses."""
    ours = {row["name"]: row["value"] for row in vectors("limits.json")}
    assert {name: ours.get(name) for name in REFERENCE_LIMITS} == REFERENCE_LIMITS
    closes = json.loads((VECTORS / "codes.json").read_text())["closes"]
    assert {close["name"]: close["code"] for close in closes}["REFUSED"] == 1008


def test_every_frame_of_the_reference_has_a_vector() -> None:
    """Each frame type of the reference is sent by a vector, in its direction."""
    from_app = {
        wire.get("t")
        for name in ("hello.json", "app-frames.json")
        for vector in vectors(name)
        if "error" not in vector and isinstance(wire := vector.get("wire"), dict)
    }
    assert set(REFERENCE_FROM_APP.split()) - from_app == set()
    to_app = {vector["wire"]["t"] for vector in vectors("server-frames.json")}
    assert set(REFERENCE_TO_APP.split()) - to_app == set()


def test_every_error_of_the_reference_is_sent_by_a_vector() -> None:
    """Each error code answers something in the vectors, but `auth_required`, which nothing does."""
    assert set(REFERENCE_ERRORS.split()) == set(ErrorCode)
    exchanged = [step for exchange in vectors("exchanges.json") for step in exchange["steps"]]
    answers = [
        *(
            vector["error"]
            for name in ("hello.json", "app-frames.json")
            for vector in vectors(name)
            if "error" in vector
        ),
        *(step["expect"] for step in exchanged if "expect" in step),
        *(vector["wire"] for vector in vectors("server-frames.json")),
    ]
    codes = {answer["code"] for answer in answers if "code" in answer}
    assert set(ErrorCode) - codes == {ErrorCode.AUTH_REQUIRED}


def test_the_changelog_knows_this_version() -> None:
    """The newest version in the changelog is the one that this is."""
    versions = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == __version__


def test_the_architecture_names_every_module() -> None:
    """The architecture page has a line on each module of `server`, and on none that is not there."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    modules = {source.name for source in (PACKAGE / "server").glob("*.py")} - {"__init__.py"}
    section = page.split("\n## The modules of `server`\n")[1].split("\n## ")[0]
    assert set(re.findall(r"`([a-z_]+\.py)`", section)) == modules


@pytest.mark.parametrize("page", [path for path in tracked() if path.suffix == ".md"], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link from one page to another file finds it."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [path for path in tracked() if path.suffix == ".md"], ids=name_of)
def test_links_lead_to_a_heading(page: Path) -> None:
    """Where a link names a place in a page, there is a heading with that anchor."""
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    found = {
        (name, anchor): anchors((page.parent / name) if name else page) for name, anchor in links
    }
    assert [link for link, headings in found.items() if link[1] not in headings] == []


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub makes it of them."""
    without_code = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    before = (names[:at].count(name) for at, name in enumerate(names))
    return {f"{name}-{times}" if times else name for name, times in zip(names, before, strict=True)}


@pytest.mark.parametrize("page", [path for path in tracked() if path.suffix == ".md"], ids=name_of)
def test_examples_end(page: Path) -> None:
    """What a page shows as it is typed has a beginning and an end: no heading is part of it."""
    fences = re.findall(r"^```(.*)$", page.read_text(), re.MULTILINE)
    assert len(fences) % 2 == 0
    assert [language for language in fences[1::2] if language] == []
