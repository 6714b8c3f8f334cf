"""The error codes that outrank the status they come under, as providers and standards have them.

Codes only: a message for people changes with the language and the release. A code is compared without case,
separators and the endings "Exception" and "Error", so `ThrottlingException`, `Throttling` and `THROTTLING` are
one. Codes that say what their status says anyway are left out.
"""

from __future__ import annotations

import re

from perdure.faults.kinds import FaultKind

__all__ = ["CODES", "EDGE", "EXHAUSTED", "NO_MONEY", "PER_DAY", "SKEW", "plain"]

_CODE = re.compile(r"[A-Za-z0-9_.#:/-]{2,200}")
_ENDINGS = ("exception", "error")


def plain(code: object) -> str:
    """Give the form in which a code is looked up; "" when `code` is no code."""
    if not isinstance(code, str) or _CODE.fullmatch(code) is None:
        return ""
    # AWS writes com.amazonaws.dynamodb.v20120810#ThrottlingException, and ThrottlingException:http://...
    word = code.rpartition("#")[2].partition(":")[0].lower()
    word = word.replace("_", "").replace("-", "").replace(".", "")
    for ending in _ENDINGS:
        word = word.removesuffix(ending)
    return word


def _forms(*codes: str) -> frozenset[str]:
    return frozenset(map(plain, codes))


NO_MONEY = _forms(
    # Waiting does not pay a bill: permanent, unless the body itself says when.
    *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"),
    *("credit_balance_exhausted", "insufficient_balance", "insufficient_credits", "insufficient_funds"),
    *("exceeded_current_quota_error", "payment_required", "account_deactivated", "organization_on_hold"),
    *("contract_spend_limit_reached", "enforced_spend_limit_reached"),
    *("linked_organization_spend_limit_reached", "linked_organization_billing_unavailable"),
)

EXHAUSTED = _forms(
    # Used up until a day or a month is over, which no backoff reaches: permanent, unless a delay says when.
    *("quota_exceeded", "daily_limit_exceeded", "daily_limit_exceeded_unreg", "usage_limit_reached"),
    *("usage_limit_exceeded", "monthly_limit_exceeded", "ServiceQuotaExceededException"),
)

PER_DAY = "REQUEST_LIMIT_EXCEEDED"
"""Salesforce's code for a day's limit: letter by letter, as AWS has RequestLimitExceeded for a second's."""

SKEW = _forms(
    # A wrong clock or a wrong signature: only a Date far from the own clock tells which.
    *("SignatureDoesNotMatch", "InvalidSignatureException", "AuthFailure"),
)

CODES: dict[str, FaultKind] = {
    **dict.fromkeys(
        _forms(
            *("Throttling", "ThrottledException", "RequestThrottled", "RequestThrottledException"),
            *("TooManyRequestsException", "ProvisionedThroughputExceededException", "SlowDown"),
            *("TransactionInProgressException", "BandwidthLimitExceeded", "LimitExceededException"),
            *("PriorRequestNotComplete", "EC2ThrottledException", "ServerBusy", "RequestLimitExceeded"),
            *(
                "rateLimitExceeded",
                "userRateLimitExceeded",
                "rate_limit_error",
                "ratelimited",
                "rate_limited",
            ),
            *("rate_limit", "ramp_limit_exceeded", "overloaded_error", "engine_overloaded_error"),
            *("server_overloaded", "sharingRateLimitExceeded", "concurrentLimitExceeded"),
        ),
        FaultKind.THROTTLED,
    ),
    **dict.fromkeys(
        _forms(
            *("RequestTimeout", "RequestTimeoutException", "IDPCommunicationError", "ModelNotReadyException"),
            *("lock_timeout", "UNABLE_TO_LOCK_ROW", "temporarily_unavailable", "cmek_key_unreachable"),
        ),
        FaultKind.TRANSIENT,
    ),
    **dict.fromkeys(
        _forms(
            *("RequestTimeTooSkewed", "RequestExpired", "ExpiredToken", "ExpiredTokenException"),
            *("TokenRefreshRequired", "token_expired"),
        ),
        FaultKind.STALE,
    ),
    **dict.fromkeys(
        _forms(
            *("context_length_exceeded", "content_policy_violation", "content_filter", "model_not_found"),
            *("invalid_api_key", "API_KEY_INVALID", "accessNotConfigured", "idempotency_error"),
            "unsupported_country_region_territory",
        ),
        FaultKind.PERMANENT,
    ),
    **dict.fromkeys(
        _forms("idempotency_key_in_use"), FaultKind.NEUTRAL
    ),  # the first request is still at work
}
"""What the remaining codes mean, under any status from 400 on."""

EDGE: dict[str, FaultKind] = {
    **dict.fromkeys(("1001", "1016", "1033", "1200"), FaultKind.TRANSIENT),  # the origin was not reached
    **dict.fromkeys(("1101", "1102"), FaultKind.AMBIGUOUS),  # a worker began, and died
    "1015": FaultKind.THROTTLED,
    **dict.fromkeys(
        (
            *("1000", "1002", "1003", "1004", "1006", "1007", "1008", "1009", "1010", "1011", "1012", "1013"),
            *("1014", "1018", "1019", "1020", "1023", "1025", "1027", "1034", "1035", "1036", "1106"),
        ),
        FaultKind.PERMANENT,
    ),
}
"""What the codes mean that Cloudflare puts into its pages with 403, 429 and 530."""
