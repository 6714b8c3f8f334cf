"""What the documentation shows is run, and what it lists is complete.

- Blocks of ``python`` run page by page in one namespace, on virtual time and offline; what a block prints has to
  stand in the ``text`` block after it. Functions named ``test_...`` in them are called. ``python no-run`` is not
  run and needs a reason in a comment right before it.
- Commands after ``$`` in ``console`` blocks are run if they are perdure's; the output shown has to be theirs, but
  for durations. In ``sh`` blocks every ``perdure run`` is run with ``--explain``.
- ``toml`` blocks are loaded, and lie in the current folder for the blocks after them.
- Relative links lead somewhere, tables name every field, kind, stop reason and event, pages every public name.
- Each page in ``docs/policies`` has the same headings, the fields of its policy with their defaults, and a diagram.
"""

from __future__ import annotations

import io
import logging
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, redirect_stdout
from dataclasses import fields
from inspect import signature
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import perdure
from perdure import config, content, faults, hints, idempotency, integrations, testing
from perdure.engine import logs
from perdure.faults.builtin import RULES as BUILTIN
from perdure.faults.kinds import Fault, FaultKind, Safety
from perdure.integrations.shared.options import Options, Override
from perdure.parts import UNSET
from perdure.testing import VirtualClock, no_waits, record_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
# The benchmark page is written by a program, and its blocks are commands that take minutes.
PAGES = [README, *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name != "benchmarks.md")]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

# A server on this machine: its answers take real time, so blocks of these pages run without waits instead.
SERVING = """
    from contextlib import contextmanager
    from tests.integration import wire

    @contextmanager
    def serving(*statuses):
        with wire.serve(*(wire.answer(status, body=b"ok") for status in statuses)) as server:
            yield server.url
"""

# What a page takes for granted: the reader's own clients and services.
BEFORE = {
    "README.md": """
        class model:
            calls = 0
            async def complete(prompt):
                model.calls += 1
                raise ConnectionError("connection lost")
    """,
    "docs/deadlines.md": """
        import asyncio
        class client:
            async def get(path): await asyncio.sleep(10)
            async def audit(what): await asyncio.sleep(2)
    """,
    "docs/integrations/aiohttp.md": SERVING,
    "docs/integrations/requests.md": SERVING,
    "docs/integrations/urllib3.md": SERVING,
}
PLAIN_BLOCKS = {"", "text", "json", "mermaid"}
POLICIES = {
    "retry": perdure.Retry,
    "breaker": perdure.Breaker,
    "budget": perdure.Budget,
    "gate": perdure.Gate,
    "rate-limit": perdure.RateLimit,
    "bulkhead": perdure.Bulkhead,
    "timeouts": perdure.Timeouts,
    "hedge": perdure.Hedge,
    "fallback": perdure.Fallback,
}
HEADINGS = ["When", "Usage", "Defaults", "Events", "What happens", "Do / Don't", "What it cannot do"]
FIXTURES = {
    "perdure_clock": lambda: VirtualClock(seed=0),
    "perdure_no_waits": no_waits,
    "perdure_events": record_events,
}


class Block(NamedTuple):
    """A fenced block: its info string, its text, the line of its first line, and the comment before it."""

    info: str
    text: str
    line: int
    comment: str

    @property
    def kind(self) -> str:
        return (self.info.split() or [""])[0]


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    inside: list[str] | None = None
    info, start, before = "", 0, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if inside is not None:
            if line.strip() == "```":
                found.append(Block(info, "\n".join(inside) + "\n", start, before))
                inside, before = None, ""
            else:
                inside.append(line)
        elif line.startswith("```"):
            info, start, inside = line[3:].strip(), number + 1, []
        elif line.strip():
            before = line.strip()
    assert inside is None, f"{page}: the block at line {start} is not closed"
    return found


def without_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


# Running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to stand in, no PERDURE_ variables, and logging as it was afterwards."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PERDURE_")]:
        monkeypatch.delenv(name)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield tmp_path
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("perdure").setLevel(logging.NOTSET)


@pytest.mark.parametrize("name", NAMES)
def test_every_block_of_a_page_runs_and_prints_what_stands_there(name: str, here: Path) -> None:
    module = ModuleType("__main__")
    exec(dedent(BEFORE.get(name, "")), module.__dict__)  # noqa: S102 - our own text
    found = blocks(ROOT / name)
    for block, after in zip(found, [*found[1:], None], strict=False):
        if block.kind == "toml":
            check_toml(block, here)
        elif block.kind == "console":
            check_console(block, name, here)
        elif block.kind == "sh":
            check_commands(block, name)
        elif block.info == "python":
            printed = run_python(block, ROOT / name, module)
            shown = after.text if after is not None and after.kind == "text" else ""
            assert plain(printed) == plain(shown), f"{name}:{block.line} prints something else"
    for value in vars(module).values():
        if isinstance(value, sqlite3.Connection):
            value.close()


def run_python(block: Block, page: Path, module: ModuleType) -> str:
    """Run a block, with the page's own lines in tracebacks; gives what it printed."""
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    before = set(module.__dict__)
    out = io.StringIO()
    with redirect_stdout(out), ExitStack() as stack:
        if "VirtualClock" not in block.text:
            stack.enter_context(no_waits() if "serving" in module.__dict__ else VirtualClock(seed=0))
        try:
            exec(code, module.__dict__)  # noqa: S102 - our own documentation
        except ModuleNotFoundError as error:
            if os.environ.get("PERDURE_TEST_CLIENTS") == "all" or f"{error.name}".startswith("perdure"):
                raise
            pytest.skip(f"{error.name} is not installed")
    for name in module.__dict__.keys() - before:
        if name.startswith("test_"):
            call_test(module.__dict__[name])
    return out.getvalue()


def call_test(function: Any) -> None:
    with ExitStack() as stack:
        given = {name: stack.enter_context(FIXTURES[name]()) for name in signature(function).parameters}
        if not given and "VirtualClock" not in function.__code__.co_names:
            stack.enter_context(VirtualClock(seed=0))
        function(**given)


def plain(text: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"\b[0-9a-f]+-[0-9a-f]+\b(?=\))", "ID", text).strip()


def check_toml(block: Block, here: Path) -> None:
    file = here / ("pyproject.toml" if "[tool.perdure" in block.text else "perdure.toml")
    file.write_text(block.text, encoding="utf-8")
    assert config.load_policies(file)


def check_console(block: Block, name: str, here: Path) -> None:
    shell = here / "bin" / "perdure"
    if not shell.exists():
        shell.parent.mkdir()
        shell.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m perdure.cli "$@"\n')
        shell.chmod(0o755)
    env = {**os.environ, "PATH": f"{shell.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    for command, shown in commands(block.text):
        if not command.startswith("perdure ") or command.startswith("perdure demo"):
            continue
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=here, env=env, capture_output=True, text=True, timeout=20, check=False
        )  # fmt: skip
        said = done.stdout + done.stderr
        if shown:
            assert timeless(said) == timeless(shown), f"{name}:{block.line}: {command}"
        else:
            assert done.returncode == 0, f"{name}:{block.line}: {command}\n{said}"


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command after ``$`` with the output shown under it."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command.strip(), shown


def timeless(text: str) -> list[str]:
    return [re.sub(r"\b\d[\d.]* (ms|s|min)\b", "TIME", line).rstrip() for line in text.strip().splitlines()]


def check_commands(block: Block, name: str) -> None:
    """Every ``perdure run`` of a script can be understood; nothing is run."""
    pytest.importorskip("click")
    from perdure.cli.app import invoke

    for line in block.text.replace("\\\n", " ").splitlines():
        _, found, rest = line.partition("perdure run ")
        if found:
            words = list(simple_command(rest))
            with redirect_stdout(io.StringIO()):
                assert invoke(["run", "--explain", *words]) == 0, f"{name}:{block.line}: {line}"


def simple_command(text: str) -> Iterator[str]:
    """The words up to the first pipe, redirection or semicolon."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "", True
    for word in lexer:
        if set(word) <= set("|&;<>()"):
            return
        yield word


# Completeness


def test_the_readme_stays_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) < 120


@pytest.mark.parametrize("name", NAMES)
def test_blocks_that_are_not_run_say_why(name: str) -> None:
    for block in blocks(ROOT / name):
        assert block.info in {*PLAIN_BLOCKS, "python", "python no-run", "console", "sh", "toml"}, block
        if block.info == "python no-run":
            assert re.fullmatch(r"<!-- .*not run.* -->", block.comment), f"{name}:{block.line}: why?"


@pytest.mark.parametrize("name", [*NAMES, "CHANGELOG.md", "CONTRIBUTING.md"])
def test_relative_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(\s*([^)\s]+)\s*\)", without_blocks(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), f"{name} links to {target}"
        assert not anchor or anchor in anchors(other), f"{name} links to {target}, which has no such heading"


def anchors(page: Path) -> set[str]:
    """The names GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name == "index.md" or f"({name})" in index


def mentioned(text: str, prefix: str, names: Iterable[str]) -> list[str]:
    """The names that stand nowhere in the text as code."""
    code = " ".join(re.findall(r"`[^`]+`", text)) + text
    return [name for name in names if not re.search(rf"(?<!\w){re.escape(prefix)}{name}(?!\w)", code)]


def test_every_public_name_is_explained_somewhere() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page != README)
    assert not mentioned(text, "", perdure.__all__)
    assert not mentioned(text, "", testing.__all__)
    assert not mentioned(text, "", faults.__all__)
    for public in (content, hints, idempotency, integrations):
        assert not mentioned(text, "", public.__all__), public.__name__


def rows(name: str, heading: str) -> list[list[str]]:
    """The cells of every table row under a heading of a page."""
    text = without_blocks(ROOT / name)
    level = "#" * (len(heading) - len(heading.lstrip("#")))
    _, found, rest = f"\n{text}".partition(f"\n{heading}\n")
    assert found, f"{name} has no heading {heading}"
    section = re.split(rf"\n#{{1,{len(level)}}} ", rest)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def code_in(cells: Iterable[str]) -> set[str]:
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def test_the_table_of_defaults_is_that_of_retry() -> None:
    table = {row[0].strip("`"): row[1].strip("`") for row in rows("docs/retry.md", "## Defaults")[2:]}
    written = {one.name: repr(one.default).replace("'", '"') for one in fields(perdure.Retry) if one.init}
    assert table == written | {"backoff": "Exponential()"}


def defaults(table: list[list[str]]) -> dict[str, str]:
    """The first two cells of each row of a table of fields."""
    return {row[0].strip("`"): row[1].strip("`") for row in table[2:]}


def written(what: type, **shown: str) -> dict[str, str]:
    """What the table of a class has to say: the parameters with their defaults."""
    found: dict[str, str] = {}
    for name, one in signature(what).parameters.items():
        named = {one.empty: "required", UNSET: "not given"}
        is_plain = isinstance(one.default, (int, float, str, type(None)))
        found[name] = repr(one.default).replace("'", '"') if is_plain else named.get(one.default, "?")
    return found | shown


def test_the_tables_of_the_http_clients_have_the_fields_of_options_and_override() -> None:
    shown = rows("docs/integrations/index.md", "## Options")
    assert defaults(shown) == written(Options)
    shown = rows("docs/integrations/index.md", "## One request that says otherwise")[2:]
    assert code_in(row[0] for row in shown) == {one.name for one in fields(Override)}


def test_there_is_a_page_for_each_policy_and_no_other() -> None:
    assert {page.stem for page in (ROOT / "docs" / "policies").iterdir()} == POLICIES.keys()


@pytest.mark.parametrize("name", POLICIES)
def test_the_page_of_a_policy_has_the_headings_in_their_order(name: str) -> None:
    text = without_blocks(ROOT / "docs" / "policies" / f"{name}.md")
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("name", POLICIES)
def test_the_page_of_a_policy_lists_its_fields_with_their_defaults(name: str) -> None:
    shown = {"backoff": "Exponential()"} if name == "retry" else {}
    assert defaults(rows(f"docs/policies/{name}.md", "## Defaults")) == written(POLICIES[name], **shown)


@pytest.mark.parametrize("name", POLICIES)
def test_the_page_of_a_policy_draws_a_call_that_goes_well_and_one_that_does_not(name: str) -> None:
    page = ROOT / "docs" / "policies" / f"{name}.md"
    section = page.read_text(encoding="utf-8").partition("\n## What happens\n")[2].partition("\n## ")[0]
    drawn = [block for block in blocks(page) if block.kind == "mermaid"]
    assert drawn
    for block in drawn:
        assert block.text in section
        assert well_drawn(block.text) == []
        assert re.search(r"-->>\w+: .*value", block.text), "it goes well"
        assert re.search(r"--x\w+: ", block.text), "it does not"


def well_drawn(diagram: str) -> list[str]:
    """The lines of a sequence diagram that mermaid would not understand, as far as pages use it."""
    first, *lines = diagram.strip().splitlines()
    names = set(re.findall(r"^ +participant (\w+) as ", diagram, flags=re.MULTILINE))
    bad = [first] if first != "sequenceDiagram" else []
    depth = 0
    for line in map(str.strip, lines):
        message = re.fullmatch(r"(\w+)(?:->>|-->>|--x)(\w+): [^;#]+", line)
        note = re.fullmatch(r"Note over (\w+)(?:,(\w+))?: [^;#]+", line)
        used = {one for found in (message, note) if found for one in found.groups() if one}
        depth += line.startswith("loop ")
        depth -= line == "end"
        is_plain = line == "end" or re.fullmatch(r"(?:participant \w+ as|loop) [^;#]+", line)
        if not (message or note or is_plain) or not used <= names or re.search(r": .*\bend\b", line):
            bad.append(line)
    return bad if depth == 0 else [*bad, "loop without end"]


def test_a_diagram_that_mermaid_would_not_understand_is_found() -> None:
    start = "sequenceDiagram\n    participant A as caller\n    participant B as breaker\n"
    assert well_drawn(f"{start}    loop twice\n    A->>B: call\n    end\n    Note over A,B: both\n") == []
    for line in (
        "A->>D: call",
        "A->>B",
        "A->>B: the end of it",
        "A->B: call",
        "loop twice",
        "Note over C: x",
        "A--xB: a; b",
    ):
        assert well_drawn(f"{start}    {line}\n"), line


def test_the_table_of_a_dependency_has_its_parameters() -> None:
    shown = {"retry": "Retry()", "budget": "Budget()", "gate": "Gate()"}
    table = defaults(rows("docs/dependency.md", "## Declare it"))
    assert table == written(perdure.Dependency, **shown)


def told_in_source() -> set[str]:
    """The names of events that the source tells, wherever it does."""
    families = "call|attempt|retry|breaker|gate|limit|hedge|fallback|budget|deadline"
    sources = [*(ROOT / "src/perdure/core").glob("*.py"), *(ROOT / "src/perdure/engine").glob("*.py")]
    text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    return set(re.findall(rf'"((?:{families})\.[a-z_]+)"', text))


def test_the_pages_list_every_event_there_is_and_no_other() -> None:
    listed = code_in(row[0] for row in rows("docs/retry.md", "## Events and log lines"))
    for name in POLICIES.keys() - {"retry"}:
        table = rows(f"docs/policies/{name}.md", "## Events")
        assert table, name
        listed |= code_in(row[0] for row in table)
    assert {name for name in listed if "." in name} == told_in_source()


def test_the_table_of_log_lines_of_a_dependency_is_that_of_the_code() -> None:
    table = rows("docs/dependency.md", "## Events and log lines")[2:]
    listed = {row[0].strip("`"): (row[1], float(row[3].removesuffix(" s") or 0)) for row in table}
    lines = {name: (logging.getLevelName(level), quiet) for name, (level, _, quiet) in logs._LINES.items()}
    assert listed == lines


def test_the_table_of_a_snapshot_has_its_fields() -> None:
    made = perdure.Dependency("seen", breaker=perdure.Breaker())
    table = rows("docs/dependency.md", "## Snapshot")[2:]
    snapshot = made.snapshot()
    assert code_in(row[0] for row in table) == snapshot.keys()
    cells = {row[0].strip("`"): code_in([row[1]]) for row in table}
    for name in ("counters", "latency", "budget", "gate", "breaker"):
        assert snapshot[name].keys() <= cells[name], name


def test_the_tables_name_every_stop_reason_kind_and_safety() -> None:
    reasons = code_in(row[0] for row in rows("docs/retry.md", "## What happens"))
    assert reasons == {reason.value for reason in perdure.StopReason}
    kinds = code_in(row[0] for row in rows("docs/faults.md", "## Kinds"))
    assert kinds == {"FaultKind", *FaultKind.__members__}
    assert code_in(row[0] for row in rows("docs/faults.md", "## Safety")) == {"Safety", *Safety.__members__}


def test_the_tables_of_events_and_of_log_attributes_name_all_there_are() -> None:
    lines: list[logging.LogRecord] = []
    handler = logging.Handler(logging.INFO)
    handler.emit = lines.append  # type: ignore[method-assign]
    logger = logging.getLogger("perdure")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with VirtualClock(), record_events() as seen:
            perdure.Retry(attempts=2).outcome(failing(ConnectionRefusedError()))
            perdure.Retry(deadline=0).outcome(failing(ConnectionRefusedError()))
            perdure.Retry().outcome(lambda: None)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    told = {event.name for event in seen} | {name for line in lines for name in vars(line)}
    usual = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}
    listed = code_in(row[0] for row in rows("docs/retry.md", "## Events and log lines"))
    assert listed == told - usual


def test_the_table_of_warnings_names_all_there_are() -> None:
    listed = code_in(row[0] for row in rows("docs/cli.md", "## `perdure explain`"))
    files = [ROOT / "src" / "perdure" / name for name in ("core/explain.py", "plans.py")]
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    assert listed == set(re.findall(r'Warning_\(\s*"([a-z-]+)"', source))


def failing(error: Exception) -> Any:
    def fail() -> None:
        raise error

    return fail


def test_the_table_of_exceptions_is_what_the_classifier_says() -> None:
    """Every class with a fixed answer is listed with it; bugs need not be, but none is called otherwise."""
    listed = {
        name: row[1].strip("`")
        for row in rows("docs/faults.md", "## Exceptions of the standard library")
        if row[1].strip("`") in FaultKind.__members__
        for name in re.findall(r"`(\w+)`", row[0])
    }
    for path, fault in BUILTIN.items():
        package, _, name = path.rpartition(".")
        if isinstance(fault, Fault) and package.partition(".")[0] in {"builtins", "asyncio", "concurrent"}:
            assumed = "PERMANENT" if fault.why.startswith("bug") else "missing"
            assert listed.get(name, assumed) == fault.kind.name, path


def test_the_options_and_variables_of_run_are_documented() -> None:
    pytest.importorskip("click")
    from perdure.cli.run_options import OPTIONS

    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for option in OPTIONS:
        names = [name for name in option.opts if name.startswith("--")]
        variables = [option.envvar] if isinstance(option.envvar, str) else []
        assert not mentioned(text, "", names + variables)


def test_the_picture_of_backoffs_is_what_the_code_draws() -> None:
    drawn = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "backoffs.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        timeout=20,
        check=True,
    )
    assert drawn.stdout == (ROOT / "docs" / "backoff.svg").read_bytes()


def test_the_report_of_a_run_has_the_documented_fields(here: Path) -> None:
    import json

    done = subprocess.run(
        [sys.executable, "-m", "perdure.cli", "run", "--json", "--", "true"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=here,
        capture_output=True,
        timeout=20,
        check=True,
    )
    report = json.loads(done.stderr)
    listed = code_in(row[0] for row in rows("docs/cli.md", "### JSON"))
    assert listed == report.keys() | report["attempts"][0].keys()
