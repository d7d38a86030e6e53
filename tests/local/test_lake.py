import json
from uuid import UUID

from clarion.decisions import EnvelopeDecision
from clarion.events import EnvelopeDecided, EnvelopeObserved
from clarion.networks import STATEMENTS
from clarion.networks.statements import codec
from local.device import Device, topic_of
from local.lake import trails


def test_a_statements_trail_goes_from_its_observation_to_what_came_of_it() -> None:
    raw = Device("Alice").statement(topic_of("a chat"), data=bytes(range(256)))
    digest, receipt = codec.digest(raw), UUID(int=1)
    decided = EnvelopeDecided(
        network=STATEMENTS,
        at=2,
        receipt=receipt,
        envelope_id=digest,
        decision=EnvelopeDecision.UNMATCHED,
        observed_at=1,
    )
    observed = EnvelopeObserved(at=1, receipt=receipt, observed_at=1, network=STATEMENTS, raw=raw)
    other = EnvelopeDecided(
        network=STATEMENTS,
        at=3,
        receipt=UUID(int=2),
        envelope_id=None,
        decision=EnvelopeDecision.MALFORMED,
        observed_at=3,
    )
    events = [json.loads(event.to_line()) for event in (decided, observed, other)]

    assert trails(events) == {digest.hex(): [f"1 observed {receipt}", f"2 envelope unmatched {receipt}"]}
