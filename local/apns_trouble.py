"""Device tokens that ask the APNs stand-in for trouble.

Tokens are hexadecimal, so the words are too, in this order, each optional:

    de1a MMMM          answer after so many milliseconds
    dead SSS NN        refuse with status SSS and its NN-th reason (`python -m local.apns --reasons` lists them)
    dead 000 01        reset the connection     dead 000 02   GOAWAY with the reason Shutdown
    dead 000 03        reset the stream         dead 000 04   never answer
      af SSSS          with Retry-After, in seconds
      b4 SSSS          410 only: the token died so many seconds before now
      c0 NNNN          only the first so many pushes; the next are accepted

So `dead50302af0030c00001…` is once ServiceUnavailable with Retry-After: 30, then fine. `troubled_token` builds them.
"""

import re

from local.http2 import Misbehaviour
from local.provider import InjectedFault

REASONS = {
    400: (
        "BadDeviceToken",
        "DeviceTokenNotForTopic",
        "BadCollapseId",
        "BadExpirationDate",
        "BadMessageId",
        "BadPriority",
        "BadTopic",
        "DuplicateHeaders",
        "IdleTimeout",
        "InvalidPushType",
        "MissingDeviceToken",
        "MissingTopic",
        "PayloadEmpty",
        "TopicDisallowed",
    ),
    403: (
        "ExpiredProviderToken",
        "InvalidProviderToken",
        "MissingProviderToken",
        "Forbidden",
        "BadCertificate",
        "BadCertificateEnvironment",
        "UnrelatedKeyIdInToken",
        "BadEnvironmentKeyIdInToken",
    ),
    404: ("BadPath",),
    405: ("MethodNotAllowed",),
    410: ("Unregistered", "ExpiredToken"),
    413: ("PayloadTooLarge",),
    429: ("TooManyRequests", "TooManyProviderTokenUpdates"),
    500: ("InternalServerError",),
    503: ("Shutdown", "ServiceUnavailable"),
}
"""Apple's reasons by status; a token counts them from 1."""

MISBEHAVIOURS = (
    Misbehaviour.RESET_CONNECTION,
    Misbehaviour.GO_AWAY,
    Misbehaviour.RESET_STREAM,
    Misbehaviour.SILENCE,
)

STATUS = {reason: status for status, reasons in REASONS.items() for reason in reasons}
_BY_STATUS: dict[int, tuple[str | Misbehaviour, ...]] = {**REASONS, 0: MISBEHAVIOURS}
FAILURES: dict[tuple[int, int], str | Misbehaviour] = {
    (status, nth): failure for status, failures in _BY_STATUS.items() for nth, failure in enumerate(failures, 1)
}
_WORDS = re.compile(
    r"(?:de1a(?P<delay>\d{4}))?"
    r"(?:dead(?P<status>\d{3})(?P<nth>\d{2})(?:af(?P<after>\d{4}))?(?:b4(?P<ago>\d{4}))?(?:c0(?P<times>\d{4}))?)?"
)


def trouble_of(token: str) -> InjectedFault:
    """What the device asks for by its token's prefix; most ask for nothing."""
    found = _WORDS.match(token)
    if found is None or not found[0]:
        return InjectedFault()
    words = {name: int(digits) for name, digits in found.groupdict().items() if digits}
    return InjectedFault(
        failure=FAILURES.get((words.get("status", -1), words.get("nth", -1))),
        delay=words.get("delay", 0) / 1000,
        retry_after=words.get("after"),
        times=words.get("times"),
        ago=words.get("ago", 0),
    )


def troubled_token(trouble: InjectedFault, device: int = 0) -> str:
    """A 64-digit token of the `device`-th device that asks for this trouble."""
    words = f"de1a{round(trouble.delay * 1000):04}" if trouble.delay else ""
    if trouble.failure is not None:
        status, nth = next(place for place, failure in FAILURES.items() if failure == trouble.failure)
        words += f"dead{status:03}{nth:02}"
        words += f"af{trouble.retry_after:04}" if trouble.retry_after is not None else ""
        words += f"b4{trouble.ago:04}" if trouble.ago else ""
        words += f"c0{trouble.times:04}" if trouble.times is not None else ""
    return words + "f" + f"{device:x}".zfill(63 - len(words))
