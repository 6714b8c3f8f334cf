"""A name server of the test's own, over UDP on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import perdure
from perdure.faults import Fault, FaultKind, classify
from perdure.testing import no_waits

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("dns")
import dns.asyncresolver
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.resolver
import dns.rrset

T, P = FaultKind.TRANSIENT, FaultKind.PERMANENT


class NameServer:
    """Answers each question with the next of `rcodes`, the last one for ever; None is no answer at all."""

    def __init__(self, *rcodes: int | None) -> None:
        self.rcodes = list(rcodes)
        self.address = ("127.0.0.1", 0)

    def serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                wire, peer = listener.recvfrom(4096)
                if not wire:
                    return
                rcode = self.rcodes.pop(0) if len(self.rcodes) > 1 else self.rcodes[0]
                if rcode is not None:
                    listener.sendto(self.answer(dns.message.from_wire(wire), rcode), peer)

    def answer(self, query: Any, rcode: int) -> bytes:
        response = dns.message.make_response(query)
        response.set_rcode(dns.rcode.from_text(dns.rcode.to_text(dns.rcode.Rcode(rcode))))
        question = query.question[0]
        if rcode == dns.rcode.NOERROR and str(question.name) == "known.example.":
            response.answer.append(dns.rrset.from_text(question.name, 60, "IN", "A", "192.0.2.1"))
        wire: bytes = response.to_wire()
        return wire

    def configure(self, resolver: Any) -> Any:
        resolver.nameservers, resolver.port = [self.address[0]], self.address[1]
        resolver.lifetime = resolver.timeout = 0.1
        return resolver

    def ask(self, name: str = "known.example.") -> Any:
        return self.configure(dns.resolver.Resolver(configure=False)).resolve(name, "A")

    async def aask(self, name: str = "known.example.") -> Any:
        return await self.configure(dns.asyncresolver.Resolver(configure=False)).resolve(name, "A")


@contextmanager
def server(*rcodes: int | None) -> Iterator[NameServer]:
    names = NameServer(*rcodes)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        names.address = listener.getsockname()
        thread = threading.Thread(target=names.serve, args=(listener,))
        thread.start()
        yield names
        listener.sendto(b"", names.address)
        thread.join(10)
    assert not thread.is_alive()


ROWS = [
    (dns.rcode.SERVFAIL, "known.example.", T, "no name server answers (SERVFAIL)"),
    (dns.rcode.NXDOMAIN, "known.example.", P, "unknown host name (NXDOMAIN)"),
    (dns.rcode.NOERROR, "empty.example.", P, "name has no such record"),
    (None, "known.example.", T, "name resolution timed out"),
]


@pytest.mark.parametrize(("rcode", "name", "kind", "why"), ROWS)
def test_an_answer_of_the_name_server(rcode: int | None, name: str, kind: FaultKind, why: str) -> None:
    with server(rcode) as names:
        with pytest.raises(dns.exception.DNSException) as caught:
            names.ask(name)
        with pytest.raises(dns.exception.DNSException) as acaught:
            asyncio.run(names.aask(name))
    assert classify(caught.value) == classify(acaught.value) == Fault(kind, None, why)


def test_a_name_server_that_comes_back_is_asked_again() -> None:
    with server(dns.rcode.SERVFAIL, dns.rcode.SERVFAIL, dns.rcode.NOERROR) as names, no_waits():
        outcome = perdure.Retry().outcome(names.ask)
    assert (outcome.ok, outcome.attempts) == (True, 3)
