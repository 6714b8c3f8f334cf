"""httpx and httpx2 differ in their names only, and so do their integrations: each is written out for its types."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "src/perdure/integrations"


def tree(text: str) -> str:
    """What the text says, however its lines are broken."""
    return ast.dump(ast.parse(text))


def test_the_integration_of_httpx2_is_that_of_httpx_under_another_name() -> None:
    written = (FOLDER / "httpx.py").read_text()
    assert tree((FOLDER / "httpx2.py").read_text()) == tree(written.replace("httpx", "httpx2"))
