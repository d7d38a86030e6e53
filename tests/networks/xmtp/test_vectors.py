"""Every vector is there, and is a case of a test."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from tests.networks.xmtp.conftest import groups

type Vector = Mapping[str, Any]

COUNTS = {
    "v2.pure": 16,
    "v2.pure: HMACs": 32,
    "v2.keystore": 13,
    "v2.conversation": 1,
    "v2.decisions": 53,
    "v3: HMAC keys": 24,
    "v3: messages": 26,
    "v3: welcomes": 4,
    "v3: decisions": 60,
    "v3.edge_cases": 8,
    "v3.reference_fixtures": 1,
    "payloads": 4,
    "connect.recorded": 18,
    "connect.recorded, not by plain gRPC": 15,
    "connect.errors": 2,
}
"""So many of each group. The product does as each says, but for these, of which tests show what it does instead:

- `connect.recorded` by plain gRPC, three: API Gateway can't pass it on.
- `connect.recorded` registrations without a mechanism: the stub that recorded them took them; they are refused, as the
  reference server does.
- `connect.errors[1]`: what the reference answers with `internal` and 500 when its database fails is `unavailable` and
  503, for then a client tries again.
- `payloads.apns.headers`: a silent push is sent with push type `background` and priority 5, as Apple has it.
- `payloads.http_webhook`, `subscription.created_at`: since when the client has had the installation, for no row says since
  when it has had the topic. Its `installation` names the mechanism `custom`, the only one that a webhook is for.
"""


def test_there_are_as_many_vectors_of_each_group_as_were_made(vectors: Vector) -> None:
    v2, v3, connect = vectors["v2"], vectors["v3"], vectors["connect"]
    envelopes, payloads = [*_of_runs(v3, "envelopes")], vectors["payloads"]
    welcomes = [one for one in envelopes if one["message_type"] == "v3-welcome"]
    keys = [key for one in _of_runs(v3, "conversations") for keys in one["hmac_keys"].values() for key in keys]
    counted = {
        "v2.pure": v2["pure"],
        "v2.pure: HMACs": [mac for one in v2["pure"] for mac in one["macs"]],
        "v2.keystore": v2["keystore"],
        "v2.conversation": [v2["conversation"]["key_material"]],
        "v2.decisions": v2["decisions"],
        "v3: HMAC keys": keys,
        "v3: messages": [one for one in envelopes if one not in welcomes],
        "v3: welcomes": welcomes,
        "v3: decisions": [*_of_runs(v3, "decisions")],
        "v3.edge_cases": v3["edge_cases"],
        "v3.reference_fixtures": v3["reference_fixtures"],
        "payloads": [payloads["apns"][name] for name in ("alert", "silent")]
        + [payloads[name] for name in ("fcm_message_data", "http_webhook")],
        "connect.recorded": connect["recorded"],
        "connect.recorded, not by plain gRPC": [one for one in connect["recorded"] if "grpc+" not in one["proto"]],
        "connect.errors": connect["errors"],
    }
    assert {name: len(found) for name, found in counted.items()} == COUNTS


def test_every_vector_of_a_group_is_a_case_of_its_tests() -> None:
    assert {name: len([*cases]) for name, cases in groups().items()} == {
        "derived_v2": COUNTS["v2.pure"],
        "sent_v2": COUNTS["v2.keystore"],
        "derived_v3": COUNTS["v3: HMAC keys"],
        "sent_v3": COUNTS["v3: messages"] + COUNTS["v3: welcomes"],
        "decision": COUNTS["v2.decisions"] + COUNTS["v3: decisions"] + COUNTS["v3.edge_cases"],
    }


def _of_runs(v3: Vector, name: str) -> Iterator[Vector]:
    return chain.from_iterable(run[name] for run in v3["runs"])
