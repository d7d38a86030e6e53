"""The scenes of XMTP: two installations of one inbox, a friend, and who is woken by whose message."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from clarion.networks.xmtp import decode
from local.cast import Cast, Friends
from local.scenes import QUIET, Outcome, decisions_on, expect, shown_by_phones
from local.system import System
from local.xmtp_device import period_now


async def a_friends_message(system: System, cast: Cast) -> Outcome:
    friends = cast.friends
    await friends.register(system)
    hello = friends.bo.message(friends.group, b"hello")
    outcome = await _published(system, friends, [hello], woken={friends.phone: 1, friends.tablet: 1})
    expect(outcome.decisions, _decided(queued=2, own_message=1), "decisions")
    return outcome


async def ones_own_message(system: System, cast: Cast) -> Outcome:
    friends = cast.friends
    answer = friends.alix.message(friends.group, b"hello yourself")
    outcome = await _published(system, friends, [answer], woken={friends.friends_phone: 1})
    expect(outcome.decisions, _decided(queued=1, own_message=2), "decisions")
    return outcome


async def a_reaction(system: System, cast: Cast) -> Outcome:
    friends = cast.friends
    heart = friends.bo.message(friends.group, b"a heart", should_push=False)
    outcome = await _published(system, friends, [heart], woken={})
    expect(outcome.decisions, _decided(not_pushable=2, own_message=1), "decisions")
    return outcome


async def the_rollover(system: System, cast: Cast) -> Outcome:
    """The sender's clock is still in the period before the node's, or already in the one after: all is as ever."""
    friends, clocks = cast.friends, (period_now() - 1, period_now() + 1)
    own = [friends.alix.message(friends.group, b"by my clock", period=at) for at in clocks]
    answers = [friends.bo.message(friends.group, b"by mine", period=at) for at in clocks]
    hearts = [friends.bo.message(friends.group, b"a heart", should_push=False, period=at) for at in clocks]
    woken = {friends.friends_phone: 2, friends.phone: 2, friends.tablet: 2}
    outcome = await _published(system, friends, [*own, *answers, *hearts], woken=woken)
    expect(outcome.decisions, _decided(matched=6, queued=6, own_message=8, not_pushable=4), "decisions")
    return outcome


def _decided(*, matched: int = 1, queued: int = 0, **others: int) -> Counter[str]:
    return +Counter({"matched": matched, "queued": queued, "delivered": queued, **others})


async def _published(
    system: System, friends: Friends, messages: Sequence[bytes], *, woken: Mapping[str, int]
) -> Outcome:
    """Publish to the group, wait for the decisions of all three installations, and see whose devices wake how often."""
    journals = system.apns.received, system.fcm.received
    before, start = [journal.count for journal in journals], time.time()
    envelopes = [decode(system.xmtp.publish(friends.group.topic, message)) for message in messages]
    ids = {envelope.id.hex() for envelope in envelopes}
    decisions = await decisions_on(system, ids, pushes=sum(woken.values()), notifications=3 * len(messages))
    await asyncio.sleep(QUIET)
    shown = [
        push for journal, count in zip(journals, before, strict=True) for push in shown_by_phones(journal.since(count))
    ]
    expect(Counter(push.token for push in shown), Counter(woken), "devices that wake")
    return Outcome(decisions, shown, min(push.at for push in shown) - start if shown else None)
