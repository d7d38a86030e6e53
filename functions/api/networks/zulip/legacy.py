"""The unencrypted protocol, which is not offered: no token is taken in the clear, so there is none to push to or to remove.

    push/register, push/unregister, push/test_notification    refused; the error goes to the app that asked
    push/notify                                               answered as Zulip's bouncer does for tokens it doesn't have
    push/unregister/all                                       done, as there is nothing to do

To push a message, a Zulip server calls `push/notify` first and `push/e2ee/notify` second: an error of the first is the end
of both. So it gets none, and removes the tokens that the answer names. After an error of `push/unregister/all`, which
comes with each new API key of a user, it would mail its administrator.
https://github.com/zulip/zulip, `zerver/lib/push_notifications.py`
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from api.bodies import at_most
from api.networks.zulip.arguments import Arguments
from api.networks.zulip.call import ServerCall
from api.networks.zulip.errors import ZulipCode, ZulipError
from api.networks.zulip.pushes import MOST_PUSHES

Tokens = Annotated[tuple[str, ...], at_most(MOST_PUSHES), Field(repr=False)]


class LegacyPushArguments(Arguments):
    """The tokens that a server has of one user. The content beside them is not read."""

    android_devices: Tokens = ()
    apple_devices: Tokens = ()


def refuse(_: ServerCall) -> Mapping[str, Any]:
    raise ZulipError(ZulipCode.LEGACY_PUSH_UNSUPPORTED)


def notify(call: ServerCall) -> Mapping[str, Any]:
    asked = call.body(LegacyPushArguments)
    return {
        "total_android_devices": 0,
        "total_apple_devices": 0,
        "deleted_devices": {"android_devices": asked.android_devices, "apple_devices": asked.apple_devices},
        "realm": None,
    }


def unregister_all(_: ServerCall) -> Mapping[str, Any]:
    return {}
