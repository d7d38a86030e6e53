"""What Zulip needs of the account: the routes that its servers call, and tables of who these servers are.

The routes are those of Zulip's own bouncer, and `expired`, which its proposal wants. Those of the unencrypted protocol, and
of transferring a registration, are there to be answered as a server understands, as is whatever else it may ask for.
https://github.com/zulip/zulip, `zilencer/urls.py`
"""

from clarion.networks.needs import AlarmNeed, Auth, Grant, Needs, Route, Send, Table, Target

SERVERS, REALMS = "zulip_servers", "zulip_realms"
BOUNCER_SECRET = "zulip-bouncer"  # noqa: S105 - a name, not a secret
REGISTRATIONS_STALE = "registrations_stale"
"""Refused for their age: a server could not reach its bouncer for a day, or a clock is wrong."""
BOUNCER_KEYS_UNKNOWN = "bouncer_keys_unknown"
"""Registrations that were sealed to a key that is not, or no longer, the bouncer's."""
PUSHES_BEYOND_LIMIT = "pushes_beyond_limit"
"""Not queued, since their tokens had as many in this minute as they get."""
TOKENS_FULL = "tokens_full"
"""Registrations refused because their token has as many devices as it may have."""

ROOT = "/api/v1/remotes"
LEGACY_REFUSED = ("register", "unregister", "test_notification")
LEGACY = (*LEGACY_REFUSED, "unregister/all", "notify")
TRANSFER = ("transfer", "verify_challenge")

NEEDS = Needs(
    tables=(Table(SERVERS, ("server_uuid", "S")), Table(REALMS, ("realm_uuid", "S"))),
    secrets=(BOUNCER_SECRET,),
    routes=(
        Route("POST", f"{ROOT}/push/e2ee/register", Auth.SERVER),
        Route("POST", f"{ROOT}/push/e2ee/notify", Auth.SERVER),
        Route("GET", f"{ROOT}/push/e2ee/expired", Auth.SERVER),
        Route("POST", f"{ROOT}/server/register", Auth.PUBLIC),
        *(Route("POST", f"{ROOT}/server/register/{name}", Auth.PUBLIC) for name in TRANSFER),
        Route("POST", f"{ROOT}/server/deactivate", Auth.SERVER),
        Route("POST", f"{ROOT}/server/analytics", Auth.SERVER),
        Route("GET", f"{ROOT}/server/analytics/status", Auth.SERVER),
        *(Route("POST", f"{ROOT}/push/{name}", Auth.SERVER) for name in LEGACY),
        Route("GET", f"{ROOT}/{{proxy+}}", Auth.PUBLIC),
        Route("POST", f"{ROOT}/{{proxy+}}", Auth.PUBLIC),
    ),
    server_path=f"^{ROOT}/",
    refusal_members=(("result", "error"), ("msg", "Too many requests from this address"), ("code", "RATE_LIMIT_HIT")),
    grants=(
        Grant(SERVERS, ("GetItem", "UpdateItem")),
        Grant(REALMS, ("GetItem", "BatchGetItem", "UpdateItem")),
        Grant("subscriptions", ("BatchGetItem", "PutItem", "UpdateItem", "DeleteItem")),
        Grant("subscriptions/index/by_client", ("Query",)),
        Grant("tokens", ("BatchGetItem", "Query", "PutItem", "DeleteItem")),
        Grant("quotas", ("UpdateItem",)),
    ),
    sends=(Send(Target.PUSHES), Send(Target.EVENTS)),
    alarms=(
        AlarmNeed(REGISTRATIONS_STALE, 10, "Zulip servers hand over registrations that are more than a day old."),
        AlarmNeed(BOUNCER_KEYS_UNKNOWN, 10, "Zulip's apps seal registrations to a key that the bouncer doesn't have."),
    ),
    router="api.networks.zulip.handler.handle",
    commanded_by=(),
)
