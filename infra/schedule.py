"""The function that EventBridge calls every minute, which wakes apps and ends what was never proven."""

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as events_targets

from clarion import wake_ups
from infra.functions import ComponentFunction, Foundation
from infra.permissions import allow_key

KEPT = Duration.minutes(5)
"""So long Lambda tries to make a call that failed, or for which it has no capacity."""


class ScheduleFunction(ComponentFunction):
    """EventBridge calls it asynchronously: Lambda makes a call that has failed twice again."""

    def __init__(self, scope: Stack, *, foundation: Foundation) -> None:
        environment, queues = foundation.environment, foundation.queues
        pairs = {channel: queues.pushes[channel] for channel in wake_ups.WAKING if channel in queues.pushes}
        waking = {channel: pair.held for channel, pair in pairs.items() if pair.held}
        super().__init__(
            scope,
            "Schedule",
            foundation=foundation,
            handler="schedule.handler.handler",
            size=environment.schedule,
            settings={
                **foundation.settings,
                "held_queues": scope.to_json_string({channel: queue.queue_url for channel, queue in waking.items()}),
                "cleanup_queue_url": queues.cleanup.queue.queue_url,
            },
        )
        self._allow_tables()
        self.allow_sending(*waking.values(), queues.cleanup.queue)
        foundation.allow_events(self)
        # By itself Lambda keeps a call for six hours: the next ones have made up for it long before.
        self.live.configure_async_invoke(max_event_age=KEPT)
        # At the beginning of each minute: a rate counts from when the rule was made.
        # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html
        events.Rule(
            scope,
            "EveryMinute",
            rule_name=f"{environment.prefix}every-minute",
            schedule=events.Schedule.cron(minute="*"),
            targets=[events_targets.LambdaFunction(self.live)],
        )

    def _allow_tables(self) -> None:
        tables = self.foundation.data.tables
        self.allow_tables("GetItem Query UpdateItem DeleteItem BatchWriteItem", tables.wake_ups)
        self.allow_tables("BatchGetItem UpdateItem", tables.subscriptions)
        allow_key(self, self.foundation.data.key, "dynamodb")
