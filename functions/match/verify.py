"""Whether an envelope may be matched at all: it must be well formed, current and genuine."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from clarion.decisions import EnvelopeDecision
from clarion.messages import ObservedMessage
from clarion.networks import Envelope, Malformed, exceeds_bounds, network

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Rejected(NamedTuple):
    """An envelope that goes no further; None if it could not be decoded."""

    decision: EnvelopeDecision
    reason: str | None = None
    envelope: Envelope | None = None


def verify_envelope(name: str, raw: bytes, now: int) -> Envelope | Rejected:
    """The verified envelope of the network `name`. The cheap checks come first, the signature last.

    `now` is in UNIX milliseconds.
    """
    its_network = network(name)
    try:
        envelope = its_network.decode(raw)
    except Malformed as error:
        return Rejected(EnvelopeDecision.MALFORMED, str(error))
    if exceeds_bounds(envelope):
        return Rejected(EnvelopeDecision.MALFORMED, "more than the tables can hold")
    if envelope.expires_at * 1000 <= now:
        return Rejected(EnvelopeDecision.EXPIRED, envelope=envelope)
    rejection = its_network.verify(envelope)
    return Rejected(rejection, envelope=envelope) if rejection else envelope


class RawEnvelopes:
    """Reads an envelope's bytes: from its message, or from S3 if they were too large for one.

    `s3` makes the client: few invocations meet a large envelope, and the others need not wait for it.
    """

    def __init__(self, s3: Callable[[], "S3Client"], bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def read(self, message: ObservedMessage) -> bytes:
        if message.location is None:
            return message.raw or b""
        return self._s3().get_object(Bucket=self._bucket, Key=message.location)["Body"].read()
