from uuid import UUID

import sr25519

from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import EnvelopeMessage, PushMessage, Recipient
from clarion.networks import STATEMENTS, network
from clarion.networks.statements.codec import Statement
from clarion.networks.statements.signature import sign

RECIPIENT = Recipient(UUID(int=2), b"client", Channel.FCM)


def test_a_push_says_what_was_observed_for_whom_and_under_which_key() -> None:
    statement = sign(Statement(9 << 32, (b"a" * 32, b"b" * 32), b"hello"), sr25519.pair_from_seed(bytes(32)))
    observed = EnvelopeMessage(
        network=STATEMENTS, receipt=UUID(int=1), observed_at=1, raw=statement.encoded, replayed_since=0
    )
    envelope = network(STATEMENTS).decode(statement.encoded)
    _, key = envelope.keys

    push = PushMessage.of(observed, envelope, key, Wanted.CALL, RECIPIENT)

    assert push == PushMessage(
        network=STATEMENTS,
        purpose=Purpose.NOTIFICATION,
        receipt=UUID(int=1),
        observed_at=1,
        replayed_since=0,
        envelope_id=statement.hash,
        expires_at=9,
        subscription_id=UUID(int=2),
        client_id=b"client",
        channel=Channel.FCM,
        wanted=Wanted.CALL,
        body={"sender": statement.signer, "topic": b"b" * 32, "data": b"hello"},
    )
    assert PushMessage.model_validate_json(push.to_json()) == push
