"""The Model Context Protocol by JSON-RPC code: exceptions of `mcp`."""

from __future__ import annotations

from perdure.faults.http import fault_of_status
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.safety import peek

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from perdure.faults.custom import Step

__all__ = ["RULES"]

_CODES = {
    -32700: Fault(FaultKind.PERMANENT, None, "JSON-RPC -32700: not JSON"),
    -32600: Fault(FaultKind.PERMANENT, None, "JSON-RPC -32600: invalid request"),
    -32601: Fault(FaultKind.PERMANENT, None, "JSON-RPC -32601: no such method"),
    -32602: Fault(FaultKind.PERMANENT, None, "JSON-RPC -32602: invalid parameters"),
    -32603: Fault(FaultKind.AMBIGUOUS, None, "JSON-RPC -32603: internal error"),
    # Of the client itself: the request was sent, and no answer came.
    -32001: Fault(FaultKind.AMBIGUOUS, None, "MCP -32001: request timed out"),
    -32000: Fault(FaultKind.AMBIGUOUS, None, "MCP -32000: connection closed"),
}


def _mcp_error(exc: Any) -> Fault:
    code = peek(peek(exc, "error"), "code")
    known = _CODES.get(code) if isinstance(code, int) else None
    if known is not None:
        return known
    if isinstance(code, int) and 400 <= code <= 599:  # servers that pass on a status
        return fault_of_status(code)
    # The rest of -32000..-32099 is each server's own; what it means is not to be guessed.
    return Fault(FaultKind.PERMANENT, None, f"JSON-RPC {code}")


RULES: dict[str, Step] = {
    "mcp.shared.exceptions.MCPError": _mcp_error,
    "mcp.shared.exceptions.McpError": _mcp_error,  # until release 2
}
