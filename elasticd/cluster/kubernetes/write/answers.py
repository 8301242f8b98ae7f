"""Answers for actions that were not carried out: a result, and its reason as one word for counting.

Knows the HTTP statuses that a write meets; knows nothing of how it was tried.
"""

from elasticd.cluster.kubernetes.session import ApiError
from elasticd.model.actions import Answer

_REASONS = {
    0: "NoReply",
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    413: "TooLarge",
    422: "Invalid",
    429: "TooManyRequests",
}

READ_BACK_AFTER = (0.0, 0.5, 2.0)
"""Seconds before each look at what became of a write whose reply was lost."""

NOT_LEADING = Answer("refused", message="not the leader", reason="NotLeader")


def reason_of(code: int) -> str:
    """The word for an HTTP status; 0: there was none."""
    return _REASONS.get(code) or ("ServerError" if code >= 500 else "Rejected")


def spent(message: str) -> Answer:
    """The write budget does not allow it."""
    return Answer("refused", message=message, reason="BudgetSpent")


def failed(code: int, message: str) -> Answer:
    """The server did not do it."""
    return Answer("failed", code, message, reason_of(code))


def refused_by(error: ApiError) -> Answer:
    """The server said no, or nothing, in these words."""
    return failed(error.code, str(error))


def unknown_kind(error: Exception) -> Answer:
    """The server has no such kind, or it cannot be scaled."""
    return Answer("failed", 404, str(error), "UnknownKind")


def other_uid(error: ApiError) -> bool:
    """Whether the object of this name is not the one that was judged: a precondition failed, or a patch would have
    changed its UID."""
    if error.code == 409:
        return "UID in precondition" in error.message or "UID in the precondition" in error.message
    return error.code == 422 and "metadata.uid" in error.message


def conflict(code: int, message: str) -> Answer:
    """The world moved since it was judged."""
    return Answer("conflict", code, message, "NotFound" if code == 404 else "Conflict")
