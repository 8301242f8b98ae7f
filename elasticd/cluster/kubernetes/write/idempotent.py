"""Sends writes that must not happen twice: repeated only if nothing was written, read back if that is unknown.

Knows budgets, leadership and the ways a server says no; knows nothing of what is written.
"""

from collections.abc import Awaitable, Callable

from elasticd.cluster.kubernetes.session import ApiError, Request, Session
from elasticd.cluster.kubernetes.write.answers import NOT_LEADING, conflict, failed, refused_by, spent
from elasticd.cluster.kubernetes.write.budget import Budget
from elasticd.model.actions import Answer

Allowed = Callable[[], Answer | None]
"""Called just before each write; an answer forbids it, None allows it."""

Look = Callable[[ApiError], Awaitable[Answer | None]]
"""What became of a write whose reply was lost; None: nothing, so that it may be tried again."""

_REPEATS = 3
DONE = Answer("done", 201)


class Once:
    """Sends within the budget. `patience` is how many seconds a write may wait for its turn."""

    def __init__(self, session: Session, budget: Budget) -> None:
        self._session, self._budget = session, budget
        self.patience = 30.0

    async def send(
        self, request: Request, allowed: Allowed, look: Look, refused: Callable[[ApiError], Answer] | None = None
    ) -> Answer:
        """Send the request and return what came of it. `refused` turns an error into an answer; only a failed one is
        tried again. Once a reply was lost, a later refusal is reported as failed: the first write may still happen."""
        answer, lost = NOT_LEADING, False
        for _ in range(1 + _REPEATS):
            if not await self._budget.take(self.patience):
                return _doubted(spent(f"the write budget is spent for the next {self.patience:g} s"), lost=lost)
            if stop := allowed():
                return _doubted(stop, lost=lost)
            try:
                await self._session.send(request)
                return DONE
            except ApiError as error:
                answer = (refused or plainly)(error)
                again = answer.result == "failed"
                lost = lost or (again and error.lost)
                self._budget.pause(error.quiet if again else 0.0)
                # Of two that were sent, the first may have been carried out late, and stand in the way of the second.
                if (again and error.lost) or (lost and error.code in (404, 409)):
                    if outcome := await look(error):
                        return outcome
                elif not again or not 0 < error.quiet <= self.patience:
                    return _doubted(answer, lost=lost)
        return _doubted(answer, lost=lost)


def _doubted(answer: Answer, *, lost: bool) -> Answer:
    """The answer, turned into a failure if an earlier reply was lost and this one does not settle what happened."""
    unsure = answer.result == "failed" and (answer.code == 0 or answer.code >= 500)
    if not lost or unsure or answer.result == "done":
        return answer
    return failed(0, f"a reply was lost, so that it may be done yet; then {answer.message}")


async def nothing(_: ApiError) -> Answer | None:
    """A look for declarative writes, which may be sent twice: it never finds anything."""
    return None


def plainly(error: ApiError) -> Answer:
    """A refusal of a write about one pod."""
    if error.code == 404 or another(error):
        return conflict(404, f"it is gone: {error.message}")
    return conflict(409, error.message) if error.code == 409 else refused_by(error)


def another(error: ApiError) -> bool:
    """Whether the pod of this name is not the one that was judged: a precondition failed, or a patch would have
    changed its UID."""
    if error.code == 409:
        return "UID in precondition" in error.message or "UID in the precondition" in error.message
    return error.code == 422 and "metadata.uid" in error.message
