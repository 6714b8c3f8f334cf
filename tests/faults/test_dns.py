"""Name resolution by dnspython; against a real name server in tests/integration/test_dns.py."""

from __future__ import annotations

import pytest

from perdure.faults import FaultKind, classify
from perdure.faults.dns import RULES
from perdure.faults.signal import Signal, signal_of

dns = pytest.importorskip("dns")

T, S, P = FaultKind.TRANSIENT, FaultKind.STALE, FaultKind.PERMANENT


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("exception.Timeout", T),
        ("query.BadResponse", T),
        ("query.UnexpectedSource", T),
        ("message.ShortHeader", T),
        ("message.TrailingJunk", T),
        ("tsig.BadTime", S),
        ("tsig.PeerBadTime", S),
        ("resolver.YXDOMAIN", P),
        ("resolver.NotAbsolute", P),
        ("resolver.NoMetaqueries", P),
        ("resolver.NoResolverConfiguration", P),
        ("exception.FormError", P),
        ("exception.SyntaxError", P),
        ("name.EmptyLabel", P),
        ("name.LabelTooLong", P),
        ("tsig.BadSignature", P),
        ("tsig.PeerBadKey", P),
        ("message.Truncated", P),
    ],
)
def test_a_class_of_dnspython(name: str, kind: FaultKind) -> None:
    module, _, cls = name.partition(".")
    exc = getattr(pytest.importorskip(f"dns.{module}"), cls)()
    assert classify(exc).kind is kind


def test_a_timeout_is_none_of_the_language_and_still_counts_as_congestion() -> None:
    """B033."""
    exc = pytest.importorskip("dns.exception").Timeout()
    assert not isinstance(exc, TimeoutError)
    assert signal_of(exc, classify(exc), wanted=False) is Signal.OVERLOAD


def test_the_table_names_classes_that_exist() -> None:
    for full in RULES:
        module, _, cls = full.rpartition(".")
        assert issubclass(getattr(pytest.importorskip(module), cls), Exception)
