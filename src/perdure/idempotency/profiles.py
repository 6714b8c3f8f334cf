"""What servers want their idempotency keys to look like, and for how long they remember them."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.checks import check_flag, check_seconds, check_whole, refuse
from perdure.idempotency import syntax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["PROFILES", "Hosts", "Profile"]

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a server reads its idempotency key, and in which form.

    ``header`` is the field that carries it. With ``body_field`` it goes into the JSON body instead, under that
    name. ``quoted``: as a quoted string, as the IETF draft has it. ``max_length`` is in characters (default 255).
    ``retention`` is for how many seconds the server at least remembers a key (default one day, None: for ever).

    Raises ConfigError for values that cannot be. Frozen: threads and tasks may share it.
    """

    name: str
    header: str = "Idempotency-Key"
    body_field: str | None = None
    quoted: bool = False
    max_length: int = 255
    retention: float | None = DAY

    def __post_init__(self) -> None:
        for field in ("name", "header"):
            _check_token(field, getattr(self, field))
        if self.body_field is not None:
            _check_token("body_field", self.body_field)
        check_flag("quoted", self.quoted)
        check_whole("max_length", self.max_length, least=1)
        check_seconds("retention", self.retention, above=0, optional=True)

    def check(self, key: object, field: str = "key") -> str:
        """The key, if this server takes it; else a ConfigError that names ``field``."""
        fits = isinstance(key, str) and 1 <= len(key) <= self.max_length
        allowed = syntax.is_printable if self.quoted or self.body_field else syntax.is_bare
        if not isinstance(key, str) or not fits or not allowed(key):
            what = "printable" if allowed is syntax.is_printable else "visible"
            without = "" if self.quoted or self.body_field else ' without " , ; \\'
            says = (
                f"must have 1 to {self.max_length} {what} ASCII characters{without} for profile {self.name!r}"
            )
            raise refuse(
                field, says, key if not isinstance(key, str) or len(key) <= 300 else key[:300] + "..."
            )
        return key

    def written(self, key: str) -> str:
        """The key as the header field has it."""
        return syntax.quote(key) if self.quoted else key


def _check_token(field: str, value: Any) -> None:
    allowed = set("!#$%&'*+-.^_`|~")
    if not isinstance(value, str) or not value.isascii() or not value:
        raise refuse(field, "must be a name in ASCII", value)
    if not all(letter.isalnum() or letter in allowed for letter in value):
        raise refuse(field, "must be a name of letters, digits and -_.", value)


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("ietf", quoted=True),
        Profile("stripe"),
        Profile("adyen", max_length=64, retention=7 * DAY),
        Profile("paypal", header="PayPal-Request-Id", max_length=108, retention=6 * 3600.0),
        Profile("square", body_field="idempotency_key", max_length=45),
        Profile("amazon-pay", header="x-amz-pay-idempotency-key", max_length=32, retention=None),
        Profile("checkout", header="Cko-Idempotency-Key"),
    )
}
"""The profiles that come by name. Lengths and times are those of the vendors' pages, the shorter one in doubt."""


class Hosts:
    """Which profile holds for which host. Immutable after it was made; safe from any thread or task."""

    __slots__ = ("_by_host", "_everywhere")

    def __init__(self, profile: str | Profile | Mapping[str, str | Profile]) -> None:
        self._everywhere: Profile | None = None
        self._by_host: dict[str, Profile] = {}
        if isinstance(profile, (str, Profile)):
            self._everywhere = _profile(profile)
            return
        if not hasattr(profile, "items"):
            raise refuse("profile", "must be a name, a Profile, or a mapping of hosts to these", profile)
        for host, value in profile.items():
            if not isinstance(host, str) or not host or "/" in host or host.strip() != host:
                raise refuse("profile", "must map hosts such as 'api.example.com' or '*.example.com'", host)
            self._by_host[host.lower()] = _profile(value)

    def profile_of(self, host: str) -> Profile | None:
        """The profile of ``host`` or ``host:port``: the host itself, ``*.`` before its longest ending, ``*``."""
        if self._everywhere is not None:
            return self._everywhere
        bare = host if host.endswith("]") else host.rpartition(":")[0] or host
        labels = bare.split(".")
        wild = [f"*.{'.'.join(labels[start:])}" for start in range(1, len(labels))]
        return next((self._by_host[name] for name in (host, bare, *wild, "*") if name in self._by_host), None)

    def all(self) -> tuple[Profile, ...]:
        """Every profile in use, each once."""
        found = self._by_host.values() if self._everywhere is None else (self._everywhere,)
        return tuple(dict.fromkeys(found))


def _profile(value: object) -> Profile:
    if isinstance(value, Profile):
        return value
    if isinstance(value, str) and value in PROFILES:
        return PROFILES[value]
    raise refuse("profile", f"must be a Profile or one of {', '.join(PROFILES)}", value)
