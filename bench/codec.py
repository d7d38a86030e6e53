"""What taking a statement in costs beyond its signature: decode, hash and verify against a bare `sr25519.verify`.

All are timed in short turns. The ratio is the median of the turns' ratios, so that whatever else the machine does
hits both sides alike; the times are the best ones.
"""

import timeit
from collections.abc import Callable
from functools import partial
from statistics import median

import sr25519
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from clarion.channels import CHANNELS, Channel
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS, Receiver
from clarion.networks.statements import payload
from clarion.networks.statements.codec import Statement, decode, encode
from clarion.networks.statements.payload import StatementBody
from clarion.networks.statements.signature import sign, verify
from clarion.sealing import seal
from clarion.settings import TITLE

TURNS = 400
CALLS = 40
TARGET = 1.15
DEVICE_KEY = X25519PrivateKey.generate().public_key().public_bytes_raw()


def main() -> None:
    print(f"decode, verify and hash against a bare sr25519.verify (aim: at most {TARGET})")
    for name, statement in EXAMPLES.items():
        compare(name, sign(statement, sr25519.pair_from_seed(b"a made-up sender".ljust(32))))
    push = PushMessage.model_validate(EXAMPLE_PUSH)
    builders: dict[str, Callable[[PushMessage], object]] = {
        "apns": partial(payload.apns, receiver=receiver(Channel.APNS)),
        "voip": partial(payload.voip, receiver=receiver(Channel.VOIP)),
        "fcm": partial(payload.fcm, receiver=receiver(Channel.FCM)),
        "sealed apns": sealed,
    }
    taken = microseconds(*(partial(build, push) for build in builders.values()))
    print("payloads: " + ", ".join(f"{name} {min(times):.2f} µs" for name, times in zip(builders, taken, strict=True)))


def receiver(channel: Channel) -> Receiver:
    return Receiver(TITLE, CHANNELS[channel].payload_bytes)


def sealed(push: PushMessage) -> object:
    return seal(payload.apns(push, receiver(Channel.APNS)), DEVICE_KEY, push.subscription_id)


def compare(name: str, signed: Statement) -> None:
    raw, signing_payload = encode(signed), signed.signing_payload
    signature, signer = signed.proof.signature if signed.proof else b"", signed.signer

    def take_in() -> bytes:
        statement = decode(raw)
        verify(statement)
        return statement.hash

    bare, whole, decoding = microseconds(
        lambda: sr25519.verify(signature, signing_payload, signer), take_in, lambda: decode(raw)
    )
    ratio = median(ours / theirs for ours, theirs in zip(whole, bare, strict=True))
    print(f"  {name}, {len(raw)} bytes: {ratio:.3f}, of the best times {min(whole) / min(bare):.3f}")
    print(f"    {min(whole):.2f} against {min(bare):.2f} µs; decode alone {min(decoding):.2f} µs")


EXAMPLES = {
    "a greeting on one topic": Statement(expiry=0xFFFFFFFF << 32, topics=(bytes(32),), data=bytes(14)),
    "a message on a topic and a channel": Statement(
        expiry=0xFFFFFFFF << 32, topics=(bytes(32),), channel=bytes(32), data=bytes(200)
    ),
}

EXAMPLE_PUSH = {
    "receipt": "00000000-0000-4000-8000-000000000001",
    "observed_at": 1_800_000_000_000,
    "envelope_id": bytes(32),
    "subscription_id": "00000000-0000-4000-8000-000000000002",
    "client_id": bytes(32),
    "channel": Channel.APNS,
    "network": STATEMENTS,
    "body": StatementBody(sender=bytes(32), topic=bytes(32), data=bytes(200)),
    "expires_at": 1_900_000_000,
}


def microseconds(*calls: Callable[[], object]) -> list[list[float]]:
    """How long each call took in each turn."""
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(TURNS):
        for times, call in zip(taken, calls, strict=True):
            times.append(timeit.timeit(call, number=CALLS) / CALLS * 1e6)
    return taken


if __name__ == "__main__":
    main()
