"""All of SimpleX's models, for `clarion.tables.bind`."""

from pynamodb.models import Model

from clarion.networks.simplex.queues import FollowedQueue
from clarion.networks.simplex.tokens import StoredToken

MODELS: tuple[type[Model], ...] = (StoredToken, FollowedQueue)
"""One for each table that is read as such: that of the newest items is `clarion.newest`'s."""
