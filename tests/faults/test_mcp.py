from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer
from mcp.shared.exceptions import NoBackChannelError, UrlElicitationRequiredError

from perdure.faults import Fault, FaultKind, classify
from perdure.faults.signal import Signal, signal_of

A, R, P = FaultKind.AMBIGUOUS, FaultKind.THROTTLED, FaultKind.PERMANENT


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, P) for code in (-32700, -32600, -32601, -32602, -32002, -32020, -32021, -32022, -32042)),
        (-32603, A),
        (-32001, A),
        (-32000, A),
        (-32099, P),
        (7, P),
        # Servers that pass on a status.
        (429, R),
        (503, A),
        (404, P),
    ],
)
def test_an_error_goes_by_its_code(code: int, kind: FaultKind) -> None:
    assert classify(MCPError(code, "no")).kind is kind


def test_the_subclasses_go_by_their_codes() -> None:
    assert classify(NoBackChannelError("x")).kind is P
    assert classify(UrlElicitationRequiredError([])).kind is P


def test_the_class_of_earlier_releases_is_known() -> None:
    old = type(
        "McpError",
        (Exception,),
        {"__module__": "mcp.shared.exceptions", "error": MCPError(-32001, "x").error},
    )
    assert classify(old("x")).kind is A


def test_an_error_without_a_code_is_permanent() -> None:
    error = MCPError(1, "x")
    error.error = None  # type: ignore[assignment] # as after unpickling by another release
    assert classify(error).kind is P


def test_a_timeout_is_congestion() -> None:
    error = MCPError(-32001, "no")
    assert signal_of(error, classify(error), wanted=True) is Signal.OVERLOAD
    assert classify(error) == Fault(A, None, "MCP -32001: request timed out")


# -- a session in memory -------------------------------------------------------------------------------------------


def asked(name: str, **options: Any) -> BaseException:
    server = MCPServer("tools")

    @server.tool()
    async def forever() -> str:
        await asyncio.Event().wait()
        return "never"

    async def main() -> BaseException:
        async with Client(server) as client:
            with pytest.raises(MCPError) as caught:
                await (
                    client.call_tool("forever", {}, **options)
                    if name == "tool"
                    else client.read_resource(name)
                )
            return caught.value

    return asyncio.run(main())


def test_a_session_that_waits_no_longer_says_minus_32001() -> None:
    error = asked("tool", read_timeout_seconds=0.01)
    assert classify(error) == Fault(A, None, "MCP -32001: request timed out")


def test_a_resource_that_is_not_there_is_permanent() -> None:
    assert classify(asked("memory://nowhere")).kind is P
