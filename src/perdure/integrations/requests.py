"""perdure for requests: an adapter, and sessions that have it.

session = perdure.integrations.requests.session(payments)
session.get("https://api.example.com/orders/17")
"""

from __future__ import annotations

import requests
from requests.adapters import BaseAdapter, HTTPAdapter

from perdure.integrations.shared import adapters
from perdure.integrations.shared.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from perdure.dependency import Dependency, View
    from perdure.integrations.shared.options import Given
    from perdure.policies import Retry

__all__ = ["Adapter", "session"]


class Adapter(adapters.Base, BaseAdapter):  # type: ignore[misc] # send() names what it looks at, and passes the rest on
    """An adapter that sends each request under a policy: ``session.mount("https://", Adapter(payments))``.

    ``policy`` is a Dependency, a view of one, or a Retry; ``wrap`` the adapter that sends (default: a new
    ``HTTPAdapter()``, which does not retry); the rest are fields of ``perdure.integrations.Options``. Requests in
    a ``perdure.integrations.override`` block are treated otherwise. Bodies of requests that do not stream are read
    inside the attempt.

    Raises ConfigError for values that cannot work. As thread safe as the wrapped adapter.
    """

    def __init__(
        self, policy: Dependency | View | Retry, wrap: BaseAdapter | None = None, **options: Unpack[Given]
    ) -> None:
        super().__init__(requests, policy, HTTPAdapter() if wrap is None else wrap, Options.of(options))


def session(policy: Dependency | View | Retry, **options: Unpack[Given]) -> requests.Session:
    """A ``requests.Session`` that sends everything under the policy; ``options`` are those of Adapter.

    The caller's to close; as thread safe as a session is.
    """
    made = requests.Session()
    for prefix in ("https://", "http://"):
        made.mount(prefix, Adapter(policy, **options))
    return made
