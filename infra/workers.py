"""The functions that queues feed: match, dispatch for each channel, cleanup, deliveries and late events.

What each needs, and no more.
"""

import json
from collections.abc import Mapping

from aws_cdk import Stack

from clarion.channels import CHANNELS, PROVIDERS, Channel
from clarion.networks import network
from clarion.networks.needs import Commander
from infra.config import AppConfig, Consumer
from infra.findings import accept, objects_of
from infra.functions import ComponentFunction, Foundation, given
from infra.lake import DELIVERIES, EVENTS, LARGE
from infra.permissions import allow, allow_index, allow_key
from infra.queues import QueuePair
from infra.secrets import ProviderSecrets
from infra.tables import BY_KEY


class MatchFunction(ComponentFunction):
    """Matches what comes through the queue `name`, envelopes or the pages of a fan-out.

    It sends itself what one invocation can't finish, and writes to no table but those of admission. `concurrency` is
    what it takes for the number of workers: docs/decisions/0010-caps.md.
    """

    def __init__(
        self,
        scope: Stack,
        construct_id: str,
        *,
        foundation: Foundation,
        source: QueuePair,
        consumer: Consumer,
        concurrency: int,
    ) -> None:
        environment, queues = foundation.environment, foundation.queues
        settings = {
            **foundation.settings,
            **environment.matching.as_settings(),
            "queue_url": source.queue.queue_url,
            "pages_queue_url": queues.pages.queue.queue_url,
            **queues.push_settings,
            "oversize_bucket": foundation.data.oversize.bucket_name,
            "dead_letter_url": source.dead.queue_url,
            "max_receives": str(consumer.receives),
            "concurrency": str(concurrency),
            "first_app": environment.apps[0].name,
            "own_messages": json.dumps({app.name: app.own_messages for app in environment.apps}),
        }
        super().__init__(
            scope,
            construct_id,
            foundation=foundation,
            handler="match.handler.handler",
            size=consumer.size,
            settings=settings,
            feeds_itself=True,
        )
        self.consume(source.queue, consumer)
        followed = dict.fromkeys((source.queue, queues.pages.queue))
        self.allow_sending(*(pair.queue for pair in queues.pushes.values()), *followed, source.dead)
        self._allow_reading()
        self.allow_tables("PutItem", foundation.data.tables.push_records)
        self.allow_tables("BatchGetItem GetItem PutItem Query", foundation.data.tables.rate_limits)
        if recorded := environment.newest_tables():
            self.allow_tables("GetItem UpdateItem", *(foundation.data.tables.by_name[name] for name in recorded))
        foundation.allow_events(self)

    def _allow_reading(self) -> None:
        tables, large = self.foundation.data.tables, self.foundation.data.oversize
        allow_index(self, tables.rules, BY_KEY)
        self.allow_reading_subscriptions()
        self.allow_tables("BatchGetItem", tables.rules)
        # Without it, S3 answers for an object that is missing as it does for one that may not be read.
        allow(self, "s3: ListBucket", large.bucket_arn)
        allow(self, "s3: GetObject", large.arn_for_objects(f"{LARGE}*"))
        accept(self.own_role, objects_of(large, LARGE), "Receipts name the objects")
        allow_key(self, self.foundation.data.key, "dynamodb")
        allow_key(self, self.foundation.data.key, "s3", "Decrypt")


class DispatchFunction(ComponentFunction):
    """Pushes by one channel, by way of the secrets of its provider alone."""

    def __init__(self, scope: Stack, channel: Channel, *, foundation: Foundation) -> None:
        environment, queues = foundation.environment, foundation.queues
        pair, consumer = queues.pushes[channel], environment.consumer(channel)
        apps = foundation.data.secrets.providers[CHANNELS[channel].provider]
        settings = {
            **foundation.settings,
            **environment.providers.as_settings(),
            **environment.address_settings(channel),
            "queue_url": pair.queue.queue_url,
            "dead_letter_url": pair.dead.queue_url,
            **given(held_url=pair.held.queue_url if pair.held else None),
            **queues.command_settings(Commander.OUTCOME, channel),
            **given(
                payload_secrets=json.dumps(secrets) if (secrets := self._payload_secrets(foundation, channel)) else None
            ),
            "cleanup_queue_url": queues.cleanup.queue.queue_url,
            "channel": channel,
            "max_receives": str(consumer.receives),
            **_apps(scope, apps),
        }
        super().__init__(
            scope,
            channel.title(),
            foundation=foundation,
            handler="dispatch.handler.handler",
            size=consumer.size,
            settings=settings,
            feeds_itself=pair.held is not None,
        )
        self.consume(pair.queue, consumer)
        if pair.held:
            self.consume(pair.held, consumer.of_held)
        self._allow_reading(channel)
        self._allow_writing(channel, pair)
        if PROVIDERS[CHANNELS[channel].provider].ends_subscriptions:
            self._allow_ending_subscriptions()
        else:
            allow_key(self, foundation.data.key, "dynamodb", "Decrypt")
        of_networks = self._payload_secrets(foundation, channel).values()
        self.allow_secrets(*(name for secrets in apps.values() for name in secrets.names), *of_networks)

    @staticmethod
    def _payload_secrets(foundation: Foundation, channel: Channel) -> dict[str, str]:
        """By the networks that compose payloads for the channel by a secret."""
        secrets = foundation.data.secrets.networks
        of_channel = foundation.environment.networks_of(channel)
        return {name: secrets[name][one] for name in of_channel if (one := network(name).needs.payload_secret)}

    def _allow_reading(self, channel: Channel) -> None:
        """Addresses, and what networks make bodies of."""
        tables = self.foundation.data.tables
        of_channel = [network(name) for name in self.foundation.environment.networks_of(channel)]
        bodies = [tables.by_name[one.needs.body_table] for one in of_channel if one.needs.body_table]
        self.allow_tables("BatchGetItem", tables.subscriptions, *bodies)
        if recorded := self.foundation.environment.newest_tables(channel):
            self.allow_tables("UpdateItem", *(tables.by_name[name] for name in recorded))

    def _allow_writing(self, channel: Channel, pair: QueuePair) -> None:
        """Where a push may end."""
        commanded = self.foundation.queues.commanded_by(Commander.OUTCOME, channel).values()
        self.allow_sending(pair.dead, *([pair.held] if pair.held else []), *commanded)
        self.foundation.allow_events(self)

    def _allow_ending_subscriptions(self) -> None:
        """What a dead token ends: all of its holders', with their wake-ups, or their expiry where one is pending."""
        tables = self.foundation.data.tables
        self.allow_sending(self.foundation.queues.cleanup.queue)
        self.allow_tables("UpdateItem", tables.subscriptions)
        self.allow_tables("Query DeleteItem", tables.tokens)
        self.allow_tables("DeleteItem", tables.wake_ups)
        allow_key(self, self.foundation.data.key, "dynamodb")


class CleanupFunction(ComponentFunction):
    """Erases rules that are out of force, and ends a dead token's subscriptions where a token may have many."""

    def __init__(self, scope: Stack, *, foundation: Foundation) -> None:
        consumer, tables = foundation.environment.cleanup, foundation.data.tables
        super().__init__(
            scope,
            "Cleanup",
            foundation=foundation,
            handler="cleanup.handler.handler",
            size=consumer.size,
            settings={**foundation.settings, "cleanup_queue_url": foundation.queues.cleanup.queue.queue_url},
        )
        self.consume(foundation.queues.cleanup.queue, consumer)
        self.allow_tables("Query BatchWriteItem", tables.rules)
        allow_key(self, foundation.data.key, "dynamodb")
        if foundation.environment.has_additive_networks:
            self._allow_ending_subscriptions()
        else:
            self.allow_reading_subscriptions()

    def _allow_ending_subscriptions(self) -> None:
        """As dispatch ends them; what rules they had is another message."""
        tables = self.foundation.data.tables
        self.allow_tables("BatchGetItem UpdateItem", tables.subscriptions)
        self.allow_tables("Query DeleteItem", tables.tokens)
        self.allow_tables("DeleteItem", tables.wake_ups)
        self.allow_sending(self.foundation.queues.cleanup.queue)
        self.foundation.allow_events(self)


class DeliveriesFunction(ComponentFunction):
    """Reads each new file of the lake, and writes its index beside."""

    def __init__(self, scope: Stack, *, foundation: Foundation) -> None:
        consumer, lake = foundation.environment.deliveries, foundation.data.lake
        super().__init__(
            scope,
            "Deliveries",
            foundation=foundation,
            handler="deliveries.handler.handler",
            size=consumer.size,
            settings={},
        )
        self.consume(foundation.data.deliveries, consumer)
        for verb, folder in (("GetObject", EVENTS), ("PutObject", DELIVERIES)):
            allow(self, f"s3: {verb}", lake.arn_for_objects(f"{folder}*"))
            accept(self.own_role, objects_of(lake, folder), "Firehose names the files, and the index follows")
        allow_key(self, foundation.data.key, "s3")


class LateEventsFunction(ComponentFunction):
    """Sends to Firehose what it did not take before."""

    def __init__(self, scope: Stack, *, foundation: Foundation) -> None:
        consumer = foundation.environment.late_events
        super().__init__(
            scope,
            "LateEvents",
            foundation=foundation,
            handler="late_events.handler.handler",
            size=consumer.size,
            settings={"events_stream": foundation.settings["events_stream"]},
            name="late-events",
        )
        self.consume(foundation.queues.late_events.queue, consumer)
        allow(self, "firehose: PutRecordBatch", foundation.events.delivery_stream_arn)


def _apps(scope: Stack, apps: Mapping[AppConfig, ProviderSecrets]) -> dict[str, str]:
    """The first app spelled out, and further ones as JSON; see `DispatchSettings`."""
    (first, secrets), *further = apps.items()
    others = [_further(*each) for each in further]
    return {
        "app_name": first.name,
        "provider_secret_id": secrets.key,
        **given(sandbox_secret_id=secrets.sandbox),
        "bundle_id": first.bundle_id or "",
        "alert_title": first.alert_title,
        **given(apps=scope.to_json_string(others) if others else None),
    }


def _further(app: AppConfig, secrets: ProviderSecrets) -> dict[str, str]:
    return {
        "name": app.name,
        "secret_id": secrets.key,
        **given(bundle_id=app.bundle_id, sandbox_secret_id=secrets.sandbox),
        "alert_title": app.alert_title,
    }
