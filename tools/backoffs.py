"""Draws docs/backoff.svg: delays that `perdure.Exponential` really draws, one panel for each jitter.

Run `python tools/backoffs.py > docs/backoff.svg`. The seed is fixed: the picture changes only with the code.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from perdure import Exponential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perdure.core.backoff import Jitter

JITTERS: tuple[Jitter, ...] = ("full", "equal", "coherent", "none")
CALLS = 30
RETRIES = 8
CAP = 5.0

PANEL, TOP, HEIGHT, GAP = 180.0, 30.0, 150.0, 22.0
STYLE = (
    "text{font:11px sans-serif;fill:#777}.a{stroke:#999;stroke-width:.6}"
    ".d{stroke:#2a6fb0;stroke-opacity:.45;stroke-width:4;stroke-linecap:round}"
    ".l{fill:none;stroke:#c2571a;stroke-width:1.2}"
)


def main() -> None:
    """Print the picture."""
    width = len(JITTERS) * (PANEL + GAP) + GAP
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {TOP + HEIGHT + 34:g}" role="img">'
    )
    print(
        f"<title>Delays of {CALLS} calls before retries 1 to {RETRIES}, by jitter</title><style>{STYLE}</style>"
    )
    for index, jitter in enumerate(JITTERS):
        left = GAP + index * (PANEL + GAP)
        print("\n".join(panel(jitter, left)))
    print("</svg>")


def panel(jitter: Jitter, left: float) -> Iterator[str]:
    """One jitter: a dot for each delay, and a line through those of one call."""
    calls = list(draws(jitter))
    yield f'<text x="{left:g}" y="18">jitter {jitter}, cap {CAP:g} s</text>'
    yield f'<path class="a" d="M{left:g} {TOP:g}v{HEIGHT:g}h{PANEL:g}" fill="none"/>'
    for delays in calls:
        dots = "".join(f"M{x(left, n):.1f} {y(delay):.1f}h0" for n, delay in enumerate(delays, 1))
        yield f'<path class="d" d="{dots}"/>'
    line = " ".join(f"{x(left, n):.1f},{y(delay):.1f}" for n, delay in enumerate(calls[0], 1))
    yield f'<polyline class="l" points="{line}"/>'
    for retry in range(1, RETRIES + 1):
        yield f'<text x="{x(left, retry) - 3:.1f}" y="{TOP + HEIGHT + 14:g}">{retry}</text>'
    yield f'<text x="{left:g}" y="{TOP + HEIGHT + 28:g}">retry; 0 to {CAP:g} s upwards</text>'


def draws(jitter: Jitter) -> Iterator[list[float]]:
    """The delays of each call, as the engine draws them: one `u` for a call."""
    random = Random(7).random
    backoff = Exponential(base=0.1, factor=2, cap=CAP, jitter=jitter)
    for _ in range(CALLS):
        u = random()
        yield [backoff.delay(n, None, random, u=u) for n in range(1, RETRIES + 1)]


def x(left: float, retry: int) -> float:
    """The column of a retry."""
    return left + PANEL * (retry - 0.5) / RETRIES


def y(delay: float) -> float:
    """The height of a delay in seconds."""
    return TOP + HEIGHT * (1 - delay / CAP)


if __name__ == "__main__":
    main()
