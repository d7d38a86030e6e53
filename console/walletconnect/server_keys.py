"""`clarion walletconnect create-keys` and `rotate-keys`: the Notify server's own keys.

Wallets send to the topic of these keys. So a change has three steps: the secret, the new topic, the end of the old one. Where
it stopped in between, `create-keys` does what is left.
"""

from clarion.clock import now_ms
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.topics import ENDED, FollowedTopic, TopicKind, ending, followed
from clarion.tables import update_if
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
    """Make the keys if there are none, and have the relay's messages to them followed, and not those to the former ones."""
    stored = stored_secrets.read(_secret_id(here))
    known = _keys_of(stored.text)
    return _followed(here, known or _made(here, stored, yes=yes), made=known is None)


def rotate(here: Deployment, *, yes: bool) -> ServerKeysMade:
    """Make new keys in place of what there is. A function uses the old ones for as long as it remembers them."""
    return _followed(here, _made(here, stored_secrets.read(_secret_id(here)), yes=yes), made=True)


def _secret_id(here: Deployment) -> str:
    return f"{here.prefix}{SERVER_SECRET}"


def _followed(here: Deployment, keys: ServerKeys, *, made: bool) -> ServerKeysMade:
    now = now_ms()
    followed(keys.watch_topic, TopicKind.SERVER, "", now).save()
    former = _keys_of(stored_secrets.read_former(_secret_id(here)) or "")
    if former is not None and former.watch_topic != keys.watch_topic:
        there = FollowedTopic.topic.exists() & (FollowedTopic.bucket != ENDED)
        update_if(FollowedTopic(former.watch_topic), *ending(now), condition=there)
    return ServerKeysMade(stage=here.stage, made=made, watch_topic=keys.watch_topic)


def _keys_of(text: str) -> ServerKeys | None:
    try:
        return ServerKeys.model_validate_json(text)
    except ValueError:
        return None


def _made(here: Deployment, stored: StoredSecret, *, yes: bool) -> ServerKeys:
    confirm(f"Make the keys of the Notify server of {here}, in place of what {stored.secret_id} holds?", yes=yes)
    keys = ServerKeys.generate()
    stored_secrets.replace(stored, keys.text)
    return keys
