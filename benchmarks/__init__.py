"""What a retry costs: perdure beside hand-written code and the libraries people use today.

Run it with ``python -m benchmarks``. The modules, bottom up:

- ``targets``: the functions that get retried
- ``baselines``, ``hand_breakers``: what one would write by hand
- ``contenders``, ``breakers``, ``stacks``: everything that is compared as a retry, as a breaker, as both with more,
  configured as equally as each API allows; ``lineups`` is all three
- ``http_targets``, ``http_server``, ``hand_http``, ``http_contenders``, ``aiohttp_contenders``, ``http_checks``:
  the same for requests
- ``rows``, ``breaker_rows``, ``http_rows``: what is measured on the hot path, with the goals
- ``hot``: times those rows, all contenders in turn, round by round
- ``waiting``, ``imports``, ``footprint``, ``outage``: the figures that need a fresh process for each contender
- ``report``: tables, verdicts, JSON, Markdown
"""
