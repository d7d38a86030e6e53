"""`clarion walletconnect create-keys`: the Notify server's own keys."""

from clarion.clock import now_ms
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.topics import TopicKind, followed
from console import stored_secrets
from console.deployment import Deployment
from console.output import Report, confirm
from console.stored_secrets import StoredSecret


class ServerKeysMade(Report):
    """`made` is False if there were keys already."""

    stage: str
    made: bool
    watch_topic: str

    def __rich__(self) -> str:
        keys = "has new keys" if self.made else "has its keys already"
        return f"The Notify server of {self.stage} {keys}; wallets send to topic {self.watch_topic}."


def create(here: Deployment, *, yes: bool) -> ServerKeysMade:
    """Make the keys if there are none, and have the relay's messages to them followed."""
    stored = stored_secrets.read(f"{here.prefix}{SERVER_SECRET}")
    known = _keys_of(stored)
    keys = known or _made(here, stored, yes=yes)
    followed(keys.watch_topic, TopicKind.SERVER, "", now_ms()).save()
    return ServerKeysMade(stage=here.stage, made=known is None, watch_topic=keys.watch_topic)


def _keys_of(stored: StoredSecret) -> ServerKeys | None:
    try:
        return ServerKeys.model_validate_json(stored.text)
    except ValueError:
        return None


def _made(here: Deployment, stored: StoredSecret, *, yes: bool) -> ServerKeys:
    confirm(f"Make the keys of the Notify server of {here}, in place of what {stored.secret_id} holds?", yes=yes)
    keys = ServerKeys.generate()
    stored_secrets.replace(stored, keys.text)
    return keys
