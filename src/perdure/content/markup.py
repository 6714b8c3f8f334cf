"""Rules for answers in XML: SOAP faults, and the errors that S3 sends under status 200.

XML is searched, not parsed: nothing in it is expanded. Comments and CDATA are taken out before.
"""

from __future__ import annotations

import re

from perdure.content.rules import Reply, Rule
from perdure.content.words import failure, kind_of, shown
from perdure.faults.kinds import Fault, FaultKind
from perdure.faults.signal import quoted

__all__ = ["s3", "soap"]

_NAME = r"(?:[\w.-]{1,50}:)?"
_ATTRIBUTES = r"[^<>]{0,2000}"
_FAULT = re.compile(rf"<{_NAME}Body(?:\s{_ATTRIBUTES})?>\s{{0,1000}}<{_NAME}Fault[\s/>]", re.ASCII)
_FAULT_CODE = re.compile(
    rf"<{_NAME}(?:faultcode|Value)(?:\s{_ATTRIBUTES})?>\s{{0,1000}}{_NAME}([\w.-]{{1,100}})", re.ASCII
)
_SOAP = {
    **dict.fromkeys(("Server", "Receiver"), FaultKind.AMBIGUOUS),
    **dict.fromkeys(("Client", "Sender", "VersionMismatch", "MustUnderstand"), FaultKind.PERMANENT),
    "DataEncodingUnknown": FaultKind.PERMANENT,
}

_S3_ERROR = re.compile(rf"(?:<\?xml{_ATTRIBUTES}\?>)?\s{{0,1000}}<Error(?:\s{_ATTRIBUTES})?>", re.ASCII)
_S3_CODE = re.compile(r"<Code>\s{0,100}([\w.-]{1,100})", re.ASCII)
_S3 = {"InternalError": FaultKind.TRANSIENT, "ServiceUnavailable": FaultKind.THROTTLED}


def _soap(reply: Reply) -> Fault | None:
    text = reply.text()
    if "Fault" not in text:
        return None
    text = _without(_without(text, "<!--", "-->"), "<![CDATA[", "]]>")
    start = _FAULT.search(text)
    if start is None:
        return None
    found = _FAULT_CODE.search(text, start.end())
    code = "" if found is None else found[1]
    known, dot, _ = code.partition(".")  # SOAP 1.1 has Client.Authentication
    kind = _SOAP.get(known)
    if kind is None and reply.status >= 400:
        return None
    word = quoted(shown(code)) if dot or (code and kind is None) else code or "without a code"
    return failure(reply, kind or FaultKind.PERMANENT, f"SOAP fault: {word}")


def _without(text: str, begin: str, end: str) -> str:
    """Take out everything between two marks; what is never closed ends the text."""
    kept: list[str] = []
    at = 0
    while (found := text.find(begin, at)) >= 0:
        kept.append(text[at:found])
        close = text.find(end, found + len(begin))
        if close < 0:
            return "".join(kept)
        at = close + len(end)
    kept.append(text[at:])
    return "".join(kept)


def _s3(reply: Reply) -> Fault | None:
    """S3 may begin an answer with 200 and blanks before it knows how the operation ends."""
    if not 200 <= reply.status < 300:
        return None
    text = reply.text().lstrip("\ufeff \t\r\n")
    start = _S3_ERROR.match(text)
    if start is None:
        return None
    found = _S3_CODE.search(text, start.end())
    code = "" if found is None else found[1]
    kind = _S3.get(code) or kind_of(code) or FaultKind.PERMANENT
    return failure(reply, kind, f"S3: {shown(code) or 'error without a code'}")


soap: Rule = Rule("soap", "whole", _soap)
"""SOAP faults, 1.1 and 1.2: of the server's side ambiguous, of the caller's permanent."""

s3: Rule = Rule("s3", "whole", _s3)
"""`<Error>` under status 200, as S3 answers CompleteMultipartUpload and CopyObject."""
