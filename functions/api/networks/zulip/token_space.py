"""How many devices one token may have: when it dies, all of them end.

A server may hand the same sealed registration over for each of its realms, so no server gets all the devices of a token.
"""

from api.networks.zulip.call import ServerCall
from api.networks.zulip.errors import ZulipCode, ZulipError
from clarion.networks.zulip.needs import TOKENS_FULL
from clarion.subscriptions import Registration
from clarion.tables import Token
from clarion.tokens import token_hash

MOST_DEVICES = 100
"""With the token's subscriptions of other networks."""
MOST_OF_SERVER = 20


def require_token_space(call: ServerCall, registration: Registration) -> None:
    """For one device more. Raises `ZulipError`, which its server does not try again. Several at once may be too many."""
    hashed = token_hash(registration.channel, registration.token)
    holders = list(Token.query(hashed, limit=MOST_DEVICES, attributes_to_get=["client_id"]))
    of_server = sum(holder.client_id == registration.client_id for holder in holders)
    if len(holders) < MOST_DEVICES and of_server < MOST_OF_SERVER:
        return
    call.worker.count(TOKENS_FULL)
    text = f"A token has at most {MOST_DEVICES} devices, {MOST_OF_SERVER} of one server"
    raise ZulipError(ZulipCode.BAD_REQUEST, text)
