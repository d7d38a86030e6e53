"""How often a server may call. Each kind of call has an allowance of its own, so that none is refused for another's sake."""

from api.networks.zulip.call import ServerCall
from api.networks.zulip.errors import not_ready
from api.problems import Problem, ProblemKind

CALLS_PER_MINUTE = 600
"""Of one kind, of one server; of either `notify`, as many as it may push."""
NOTIFY, EXPIRED, REGISTER = "/push/e2ee/notify", "/push/e2ee/expired", "/push/e2ee/register"
LEGACY_NOTIFY = "/push/notify"
COSTS = {EXPIRED: 10}
"""So many calls does one count as, if not for one: a page of `expired` reads a thousand rows."""


def require_call(call: ServerCall, path: str) -> None:
    """Raises `Problem` for one too many. Of a registration it is what a server tries again: a 429 would be final."""
    name = f"zulip_calls:{call.server.server_uuid}:{path}"
    limit = call.pushes_a_minute if path in (NOTIFY, LEGACY_NOTIFY) else CALLS_PER_MINUTE
    cost = COSTS.get(path, 1)
    wait = call.worker.allowances.take(name, limit, call.now, cost)
    if wait is None:
        return
    text = f"at most {limit // cost} calls of this kind a minute"
    if path == REGISTER:
        raise not_ready(text, wait)
    raise Problem(ProblemKind.TOO_MANY_REQUESTS, text, headers={"Retry-After": str(wait)})
