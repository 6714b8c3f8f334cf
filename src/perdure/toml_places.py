"""Where things stand in a TOML file, which ``tomllib`` does not tell: for errors that name line and path."""

from __future__ import annotations

import re

from perdure.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

_KEY = re.compile(r"""\s*([A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')\s*""")
# What a value is made of, as far as its end matters: strings hide brackets and comments, brackets hide newlines.
_TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*|[\[{]|[\]}]|\n|.''',
    re.DOTALL,
)
# A message begins with the field that is wrong, or with the part and the field.
_FIELD = re.compile(r"(?:(\w+): )?(\w+)(?=[ .\[])(?:\.(\w+))?")


class Where:
    """A table or key in a file that was read without errors. Immutable."""

    __slots__ = ("file", "lines", "path")

    def __init__(self, file: object, lines: dict[tuple[str, ...], int], path: tuple[str, ...] = ()) -> None:
        self.file = file
        self.lines = lines
        self.path = path

    @classmethod
    def of(cls, file: object, text: str) -> Self:
        """The top of a file."""
        return cls(file, dict(_lines(text)))

    def __truediv__(self, key: str) -> Where:
        return Where(self.file, self.lines, (*self.path, key))

    @property
    def line(self) -> int:
        """Its line, else that of the first thing in it, else that of the nearest thing around it."""
        own = [line for path, line in self.lines.items() if path[: len(self.path)] == self.path]
        if own:
            return own[0]
        return 1 if not self.path else Where(self.file, self.lines, self.path[:-1]).line

    def __str__(self) -> str:
        return ".".join(key if _KEY.fullmatch(key) else repr(key) for key in self.path)

    def error(self, message: object, table: Any = None) -> ConfigError:
        """The error for what a check said of a ``table`` here: with file, line, and the path to its field."""
        text = str(message)
        found = _FIELD.match(text)
        given = table_of(table)
        keys = () if found is None or given is None else _inside(given, found)
        here = self
        for key in keys:
            here = here / key
        if found is None or not keys:
            return ConfigError(
                f"{self.file}:{self.line}: {self}: {text}" if self.path else f"{self.file}: {text}"
            )
        line = (here / found[3]).line if found[3] else here.line
        return ConfigError(f"{self.file}:{line}: {here}{text[found.end(2) :]}")


def table_of(value: Any) -> dict[str, Any] | None:
    """The value where it is a table; else None."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType] # narrowed from Any


def _inside(table: dict[str, Any], found: re.Match[str]) -> tuple[str, ...]:
    """The keys in a table that lead to the field of a message; empty where it does not have it."""
    part, field = found[1], found[2]
    if part is None and field in table:
        return (field,)
    names = [
        name
        for name, sub in table.items()
        if isinstance(sub, dict) and field in sub and (part is None or name == part)
    ]
    return (names[0], field) if len(names) == 1 else ()


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """The path of every table and key that stands on a line of its own, with the number of the line."""
    table: tuple[str, ...] = ()
    at, line = 0, 1
    while at < len(text):
        end = text.find("\n", at)
        row = text[at : len(text) if end < 0 else end].strip()
        if row.startswith("["):
            table = _keys(row.lstrip("[ \t"))
            yield table, line
        elif row and not row.startswith("#"):
            yield (*table, *_keys(row)), line
        after = _end(text, at)
        line += text.count("\n", at, after)
        at = after


def _keys(text: str) -> tuple[str, ...]:
    """The keys at the start of a line: ``a."b c".d``."""
    keys: list[str] = []
    at = 0
    while (found := _KEY.match(text, at)) is not None:
        keys.append(_plain(found[1]))
        at = found.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return tuple(keys)


def _plain(key: str) -> str:
    if key[0] == '"' and "\\" in key:
        import tomllib

        return str(tomllib.loads(f"key = {key}")["key"])
    return key.strip("\"'") if key[0] in "\"'" else key


def _end(text: str, at: int) -> int:
    """Where the line that begins ``at`` is over, with all that its value goes on for."""
    depth = 0
    while (found := _TOKEN.match(text, at)) is not None:
        at = found.end()
        if found[0] in {"[", "{"}:
            depth += 1
        elif found[0] in {"]", "}"}:
            depth -= 1
        elif found[0] == "\n" and depth <= 0:
            break
    return at
