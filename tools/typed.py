"""Fail where a public name has a type that a type checker has to guess.

Pyright's --verifytypes, for the modules that users import: what is inside core and the engine is read by the
strict checkers, and need not repeat the type of every attribute.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import api


def main() -> int:
    """Print each such name with what is wrong with it; give 1 if there is one."""
    command = ["basedpyright", "--verifytypes", "perdure", "--ignoreexternal", "--outputjson"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    report: dict[str, Any] = json.loads(answer)["typeCompleteness"]
    modules = [module["name"] for module in report["modules"]]
    public = {module.__name__ for module in api.public_modules()}
    guessed = [
        symbol for symbol in report["symbols"] if _is_guessed(symbol) and _home(symbol, modules) in public
    ]
    for symbol in guessed:
        print(symbol["name"], *(problem["message"] for problem in symbol["diagnostics"]), sep="\n  ")
    if guessed:
        print(f"{len(guessed)} public names have a type to guess; for the attributes they are made of, run")
        print("  .venv-check/bin/basedpyright --verifytypes perdure --ignoreexternal")
    return 1 if guessed else 0


def _is_guessed(symbol: dict[str, Any]) -> bool:
    return symbol["isExported"] and (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"])


def _home(symbol: dict[str, Any], modules: list[str]) -> str:
    return max((name for name in modules if symbol["name"].startswith(f"{name}.")), key=len, default="")


if __name__ == "__main__":
    sys.exit(main())
