"""Everything that retries requests of httpx, as one table: ``HTTP``.

A row gives a transport without a network. A contender puts itself around it, or around the ``get`` of a client
that has it, and what is timed is ``handle_request`` or ``client.get``. Wanted of all: five attempts on 503, backoff
as on the other rows, and at the end the last response, or the client's own error for its status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.breakers import fresh_name
from benchmarks.contenders import Contender, NotOffered

Around = Callable[[Any], Callable[..., Any]]

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class HttpPlan:
    """What is timed: a call of a transport, or a whole request of a client that has it.

    ``fails``: two of three answers are failures. A default Dependency soon keeps away from such a server, so
    perdure's is without budget and gate then.
    """

    colour: Literal["sync", "async"]
    face: Literal["transport", "client"] = "transport"
    fails: bool = False

    def timed(self, transport: Any) -> Callable[..., Any]:
        """The function that is timed of a transport."""
        import httpx

        if self.face == "client":
            return httpx.Client(transport=transport).get
        return transport.handle_request if self.colour == "sync" else transport.handle_async_request  # type: ignore[no-any-return]


def bare(plan: HttpPlan) -> Around:
    return plan.timed


def hand(plan: HttpPlan) -> Around:
    from benchmarks import hand_http

    if plan.face == "client":
        return lambda inner: hand_http.client_loop(plan.timed(inner))
    loop: Any = hand_http.Loop if plan.colour == "sync" else hand_http.AsyncLoop
    return lambda inner: plan.timed(loop(inner))


def perdure(plan: HttpPlan) -> Around:
    return _perdure(plan, lambda: dependency(fails=plan.fails))


def perdure_retry(plan: HttpPlan) -> Around:
    return _perdure(plan, retry)


def perdure_timeouts(plan: HttpPlan) -> Around:
    import perdure as library

    timeouts = library.Timeouts(connect=5, read=10, total=30)
    return _perdure(plan, lambda: dependency(fails=plan.fails, timeouts=timeouts))


def perdure_client(plan: HttpPlan) -> Around:
    """The ready client, which reads bodies inside the attempt."""
    from perdure.integrations import httpx

    if plan.face != "client":
        raise NotOffered("a client")
    return lambda inner: httpx.client(dependency(fails=plan.fails), transport=inner).get


def httpx_retries(plan: HttpPlan) -> Around:
    import httpx_retries as library

    # It does not wait before the second attempt, so its first wait is twice the base.
    policy = library.Retry(total=ATTEMPTS - 1, backoff_factor=0.1, max_backoff_wait=5.0, backoff_jitter=1.0)
    return lambda inner: plan.timed(library.RetryTransport(transport=inner, retry=policy))


def tenacity(plan: HttpPlan) -> Around:
    import tenacity as library

    errors = _errors(plan)
    return _decorating(
        plan,
        library.retry(
            retry=library.retry_if_exception_type(errors),
            stop=library.stop_after_attempt(ATTEMPTS),
            wait=library.wait_random_exponential(multiplier=0.1, max=5),
            reraise=True,
        ),
    )


def stamina(plan: HttpPlan) -> Around:
    import stamina as library

    errors = _errors(plan)
    decorate = library.retry(
        on=errors,
        attempts=ATTEMPTS,
        timeout=30.0,
        wait_initial=0.1,
        wait_max=5.0,
        wait_jitter=1.0,
        wait_exp_base=2.0,
    )
    return _decorating(plan, decorate)


def retryhttp(plan: HttpPlan) -> Around:
    import retryhttp as library
    from tenacity import wait_random_exponential

    _errors(plan)
    wait = wait_random_exponential(multiplier=0.1, max=5)
    decorate = library.retry(
        max_attempt_number=ATTEMPTS,
        wait_server_errors=wait,
        wait_network_errors=wait,
        wait_timeouts=wait,
        reraise=True,
    )
    return _decorating(plan, decorate)


def retry() -> Any:
    """What perdure's policies here have in common."""
    import perdure as library

    return library.Retry(
        attempts=ATTEMPTS, backoff=library.Exponential(base=0.1, factor=2, cap=5, jitter="full")
    )


def dependency(*, fails: bool, **parts: Any) -> Any:
    """A dependency of its own for each contender."""
    import perdure as library

    if fails:
        parts |= {"budget": None, "gate": None}
    return library.Dependency(fresh_name(), retry=retry(), **parts)


def _perdure(plan: HttpPlan, policy: Callable[[], Any]) -> Around:
    from perdure.integrations import httpx

    kind: Any = httpx.Transport if plan.colour == "sync" else httpx.AsyncTransport
    return lambda inner: plan.timed(kind(policy(), inner))


def _errors(plan: HttpPlan) -> tuple[type[Exception], ...]:
    """What a decorator retries."""
    import httpx

    if plan.face != "client":
        raise NotOffered("a decorator has no transport")
    return httpx.HTTPStatusError, httpx.TransportError


def _decorating(plan: HttpPlan, decorate: Callable[[Any], Any]) -> Around:
    """A decorator sees errors only, so the request raises for its status."""

    def around(inner: Any) -> Callable[..., Any]:
        get = plan.timed(inner)

        @decorate
        def w(url: str) -> Any:
            return get(url).raise_for_status()

        return w  # type: ignore[no-any-return]

    return around


_RAISES = "around client.get with raise_for_status(), as it sees exceptions only"

HTTP = {
    contender.name: contender
    for contender in (
        Contender("bare", bare, note="the transport or client itself"),
        Contender(
            "hand loop", hand, note="full jitter, closes what it gives up, no deadline, no Retry-After"
        ),
        Contender(
            "perdure", perdure, "perdure", "a Dependency, keyed by host; failing rows: no budget, no gate"
        ),
        Contender("perdure, Retry only", perdure_retry, note="for information"),
        Contender(
            "perdure, with Timeouts", perdure_timeouts, note="for information; also sets the client's times"
        ),
        Contender(
            "perdure, ready client", perdure_client, note="for information; bodies are read in the attempt"
        ),
        Contender("httpx-retries", httpx_retries, "httpx-retries", "does not wait before the second attempt"),
        Contender("tenacity", tenacity, "tenacity", _RAISES),
        Contender("stamina", stamina, "stamina", f"logs WARNING per retry; {_RAISES}"),
        Contender("retryhttp", retryhttp, "retryhttp", f"built on tenacity; {_RAISES}"),
    )
}
