"""What taking a statement in costs beyond its signature: decode, hash and verify against a bare `sr25519.verify`."""

from collections.abc import Callable, Iterator
from functools import partial

import sr25519
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from bench.figures import Figure, best_microseconds, compare, report
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
DEVICE_KEY = X25519PrivateKey.generate().public_key().public_bytes_raw()


def figures(turns: int = TURNS) -> list[Figure]:
    signer = sr25519.pair_from_seed(b"a made-up sender".ljust(32))
    push = PushMessage.model_validate(EXAMPLE_PUSH)
    builders: dict[str, Callable[[PushMessage], object]] = {
        "APNs": partial(payload.apns, receiver=receiver(Channel.APNS)),
        "VoIP": partial(payload.voip, receiver=receiver(Channel.VOIP)),
        "FCM": partial(payload.fcm, receiver=receiver(Channel.FCM)),
        "APNs, sealed": sealed,
    }
    return [
        *(figure for name, statement in EXAMPLES.items() for figure in taking_in(name, sign(statement, signer), turns)),
        *(
            Figure.alone(f"build a payload for {name}", best_microseconds(partial(build, push), turns), "µs")
            for name, build in builders.items()
        ),
    ]


def taking_in(name: str, signed: Statement, turns: int) -> Iterator[Figure]:
    raw, signing_payload = encode(signed), signed.signing_payload
    signature, signer = signed.proof.signature if signed.proof else b"", signed.signer

    def take_in() -> bytes:
        statement = decode(raw)
        verify(statement)
        return statement.hash

    def verify_bare() -> None:
        sr25519.verify(signature, signing_payload, signer)

    yield compare(f"take in {name}, beside sr25519.verify", take_in, verify_bare, turns)
    yield Figure.alone(f"decode {name}", best_microseconds(lambda: decode(raw), turns), "µs")


def receiver(channel: Channel) -> Receiver:
    return Receiver(TITLE, CHANNELS[channel].payload_bytes)


def sealed(push: PushMessage) -> object:
    return seal(payload.apns(push, receiver(Channel.APNS)), DEVICE_KEY, push.subscription_id)


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


if __name__ == "__main__":
    report(figures())
