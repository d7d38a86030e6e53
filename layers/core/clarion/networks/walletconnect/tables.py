"""All of WalletConnect's models, for `clarion.tables.bind`."""

from pynamodb.models import Model

from clarion.networks.walletconnect.buckets import TokenBucket
from clarion.networks.walletconnect.identity_cache import IdentityDocument
from clarion.networks.walletconnect.notifications import SentNotification
from clarion.networks.walletconnect.projects import DappApp, Project
from clarion.networks.walletconnect.seen import SeenOnce, UnpublishedNotification
from clarion.networks.walletconnect.subscriptions import NotifySubscription
from clarion.networks.walletconnect.topics import FollowedTopic, RelaySubscriber
from clarion.networks.walletconnect.watchers import SubscribedApp, Watcher

MODELS: tuple[type[Model], ...] = (
    Project,
    DappApp,
    FollowedTopic,
    NotifySubscription,
    Watcher,
    SentNotification,
    SeenOnce,
    IdentityDocument,
    TokenBucket,
    RelaySubscriber,
    SubscribedApp,
    UnpublishedNotification,
)
"""One for each table, and three for other rows of the topics, the watchers and what was seen."""
