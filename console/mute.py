"""`clarion mute CHANNEL` and `clarion unmute CHANNEL`: stop one channel's pushes, and let them go on."""

import boto3

from clarion.channels import Channel
from console.deployment import Deployment
from console.depths import depth
from console.output import Report, confirm, progress
from console.sources import Source

DIRECT = "What POST /v1/notify pushes takes no queue and goes on; only `api.direct_push` stops it."
STALE_CALLS = "calls that wait longer than 30 s ring nobody and end as stale"
STALE_PUSHES = "messages wait in the queue for up to 14 days, and end as stale when their envelopes expire"


class Muting(Report):
    stage: str
    channel: Channel
    muted: bool
    was_muted: bool
    waiting: int

    def __rich__(self) -> str:
        if self.muted:
            stale = STALE_CALLS if self.channel is Channel.VOIP else STALE_PUSHES
            return (
                f"{self.channel} of {self.stage} is muted, {self.waiting} messages waiting; {stale}.\n"
                f"{DIRECT}\n"
                f"The alarm queue-old-{self.channel} will go off: that is this. `clarion unmute {self.channel}` ends it."
            )
        return f"{self.channel} of {self.stage} is pushing; {self.waiting} messages were waiting."


def switch(here: Deployment, channel: Channel, *, muted: bool, yes: bool) -> Muting:
    queue = here.queue(channel)
    source = Source(boto3.client("lambda"), queue)
    waiting = depth(boto3.client("sqs"), queue.url).waiting
    was_muted = not source.on
    if was_muted != muted:
        confirm(_question(here, channel, waiting, muted=muted), yes=yes)
    with progress(f"switching the event source of {queue.function}") as shown:
        source.switch(shown, on=not muted)
    return Muting(stage=here.stage, channel=channel, muted=muted, was_muted=was_muted, waiting=waiting)


def _question(here: Deployment, channel: Channel, waiting: int, *, muted: bool) -> str:
    if muted:
        return f"Stop all {channel} pushes of {here}, except those of POST /v1/notify?"
    return f"Let {channel} of {here} push again, beginning with {waiting} that wait?"
