"""Every vector is there, and is a case of a test."""

from tests.networks.walletconnect.conftest import Vector, groups

COUNTS = {"token_vector": 222, "cacao_vector": 8, "publish": 20, "signed_publish": 19}
"""So many of each group. `expect.strict` is what the product does; `reference` tells how the deployed server differs.

Of no use here: `token_bucket_reference`, `relay_auth`, `unregister_identity_jwt_ms_timestamps`, and of
the capture its HTTP requests and steps.
"""


def test_every_vector_of_a_group_is_a_case_of_its_tests() -> None:
    assert {name: len(cases) for name, cases in groups().items()} == COUNTS


def test_the_vectors_have_every_act_of_both_profiles(vectors: Vector) -> None:
    acts = {(one["profile"], one["act"]) for one in vectors["vectors"]}
    assert len(acts) == 8 + 16
