"""The queues between the stages, each with a dead-letter queue that its alarm and `redrive` watch.

What waits for a misconfigured app waits in a queue of held messages beside the hot one, which it must not fill, and so
do wake-ups.
"""

from dataclasses import dataclass
from functools import partial

from aws_cdk import Duration, Stack
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from clarion import own_pushes
from clarion.channels import CHANNELS, Channel
from clarion.networks import network
from clarion.networks.needs import Commander
from infra.config import Consumer, EnvironmentConfig

CLEANUP_DELAY = Duration.minutes(1)
"""Longer than the API's function runs: a request that was writing rules when it asked for a clean-up has ended by then."""
KEPT = Duration.days(14)
"""As long as SQS can. What SQS moves to the dead letters keeps its age, so both queues keep alike.

What match and dispatch send there themselves begins anew, and so does what is redriven:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
"""


@dataclass(frozen=True)
class QueuePair:
    """A queue and where the messages go that could not be handled; `held` is where what can wait does."""

    queue: sqs.IQueue
    dead: sqs.IQueue
    held: sqs.IQueue | None = None


class Queues(Construct):
    """Messages carry no push token: SQS's own keys encrypt them, at no price per request.

    They are public or sealed, but for late events, which a key of AWS's encrypts in Firehose, too. The queue of the
    lake's new files lies beside their bucket, in the data stack.
    """

    def __init__(self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig) -> None:
        super().__init__(scope, construct_id)
        pair = partial(queue_pair, self, environment)
        self.envelopes = pair("envelopes", environment.match)
        self.pages = pair("pages", environment.pages)
        self.pushes = {
            channel: pair(channel, environment.consumer(channel), held=CHANNELS[channel].has_held_queue)
            for channel in environment.channels
        }
        self.commands = {name: pair(commands_queue(name), environment.commands) for name in with_commands(environment)}
        self.cleanup = pair("cleanup", environment.cleanup, delay=CLEANUP_DELAY)
        self.late_events = pair("late-events", environment.late_events)

    @property
    def push_urls(self) -> dict[str, str]:
        """By channel."""
        return {channel: pair.queue.queue_url for channel, pair in self.pushes.items()}

    @property
    def proving(self) -> dict[str, sqs.IQueue]:
        """By channel, those that a code may be pushed by."""
        return {channel: pair.queue for channel, pair in self.pushes.items() if channel in own_pushes.CHANNELS}

    def of_network(self, name: str) -> dict[str, sqs.IQueue]:
        """By channel, those that the network's pushes may go by."""
        served = network(name).channels
        return {channel: pair.queue for channel, pair in self.pushes.items() if channel in served}

    @property
    def push_settings(self) -> dict[str, str]:
        """As `clarion.settings.PushQueues` reads them."""
        return {f"{channel}_queue_url": url for channel, url in self.push_urls.items()}

    @property
    def urls(self) -> dict[str, str]:
        """By name, without those of dead letters and of what is held."""
        pairs = {
            "envelopes": self.envelopes,
            "pages": self.pages,
            **self.pushes,
            **self._named_commands,
            "cleanup": self.cleanup,
            "late-events": self.late_events,
        }
        return {name: pair.queue.queue_url for name, pair in pairs.items()}

    def commanded_by(self, commander: Commander, channel: Channel | None = None) -> dict[str, sqs.IQueue]:
        """By network, where `commander` sends its commands; with `channel`, of those that are reached by it."""
        asked = {name: network(name) for name in self.commands}
        return {
            name: self.commands[name].queue
            for name, one in asked.items()
            if one.needs.takes_commands_of(commander) and (channel is None or channel in one.channels)
        }

    def command_settings(self, commander: Commander, channel: Channel | None = None) -> dict[str, str]:
        """As ingest, of sources, and dispatch, of a channel's outcomes, read them."""
        urls = {name: queue.queue_url for name, queue in self.commanded_by(commander, channel).items()}
        return {"command_queues": Stack.of(self).to_json_string(urls)} if urls else {}

    @property
    def _named_commands(self) -> dict[str, QueuePair]:
        return {commands_queue(name): pair for name, pair in self.commands.items()}


def queue_pair(
    scope: Construct,
    environment: EnvironmentConfig,
    name: str,
    consumer: Consumer,
    *,
    held: bool = False,
    delay: Duration | None = None,
) -> QueuePair:
    dead = _queue(scope, environment, f"{name}-dead")
    consumed = partial(_consumed, scope, environment, dead=dead)
    queue = consumed(name, consumer=consumer, delay=delay)
    return QueuePair(queue, dead, consumed(f"{name}-held", consumer=consumer.of_held) if held else None)


def _consumed(
    scope: Construct,
    environment: EnvironmentConfig,
    name: str,
    *,
    dead: sqs.Queue,
    consumer: Consumer,
    delay: Duration | None = None,
) -> sqs.Queue:
    return _queue(
        scope,
        environment,
        name,
        visibility_timeout=Duration.seconds(consumer.visibility_s),
        delivery_delay=delay,
        dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=consumer.receives),
    )


def _queue(
    scope: Construct,
    environment: EnvironmentConfig,
    name: str,
    *,
    visibility_timeout: Duration | None = None,
    delivery_delay: Duration | None = None,
    dead_letter_queue: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    return sqs.Queue(
        scope,
        name.title().replace("-", ""),
        queue_name=f"{environment.prefix}{name}",
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=environment.tls_only,
        retention_period=KEPT,
        max_message_size_bytes=2**20,
        visibility_timeout=visibility_timeout,
        delivery_delay=delivery_delay,
        dead_letter_queue=dead_letter_queue,
    )


def with_commands(environment: EnvironmentConfig) -> tuple[str, ...]:
    """The networks that have commands."""
    return tuple(name for name in environment.networks if network(name).needs.commands)


def commands_queue(name: str) -> str:
    return f"{name}-commands"
