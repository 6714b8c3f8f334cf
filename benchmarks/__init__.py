"""What a retry costs: perdure beside hand-written code and the libraries people use today.

Run it with ``python -m benchmarks``. The modules, bottom up:

- ``targets``: the functions that get retried
- ``contenders``: one table of everything that is compared, configured as equally as each API allows
- ``rows``: one table of what is measured on the hot path, with the goals
- ``hot``: times those rows, all contenders in turn, round by round
- ``waiting``, ``imports``, ``footprint``: the figures that need a fresh process for each contender
- ``report``: tables, verdicts, JSON, Markdown
"""
