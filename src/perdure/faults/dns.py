"""Name resolution by dnspython; `socket.gaierror` is in the table of the network.

A query does nothing to the server, so an answer that is lost or damaged is asked for again.
"""

from __future__ import annotations

from perdure.faults.kinds import Fault, FaultKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perdure.faults.custom import Step

__all__ = ["RULES"]


def _later(why: str) -> Fault:
    return Fault(FaultKind.TRANSIENT, None, why)


def _never(why: str) -> Fault:
    return Fault(FaultKind.PERMANENT, None, why)


_CLOCK = Fault(FaultKind.STALE, None, "clocks of this machine and the name server differ")

RULES: dict[str, Step] = {
    "dns.exception.DNSException": _never("DNS error"),
    "dns.exception.Timeout": _later("name server timed out"),
    "dns.resolver.LifetimeTimeout": _later("name resolution timed out"),
    "dns.resolver.NoNameservers": _later("no name server answers (SERVFAIL)"),
    "dns.resolver.NXDOMAIN": _never("unknown host name (NXDOMAIN)"),
    "dns.resolver.NoAnswer": _never("name has no such record"),
    "dns.resolver.YXDOMAIN": _never("name too long after DNAME substitution"),
    "dns.resolver.NoResolverConfiguration": _never("no name server configured"),
    "dns.query.BadResponse": _later("answer to another question"),
    "dns.query.UnexpectedSource": _later("answer from another server"),
    "dns.message.ShortHeader": _later("damaged answer"),
    "dns.message.TrailingJunk": _later("damaged answer"),
    "dns.tsig.BadTime": _CLOCK,
    "dns.tsig.PeerBadTime": _CLOCK,
}
