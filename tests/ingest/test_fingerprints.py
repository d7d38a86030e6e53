import random
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ingest.filter.fingerprints import SEGMENTS, Fingerprints, of_envelope, of_key

# Few values, of which many fall into the same segment and slot.
close = st.integers(1, 400).map(lambda number: number * SEGMENTS)
numbers = st.binary(min_size=1, max_size=1)
fingerprints = st.one_of(st.integers(-(2**63), 2**63 - 1).filter(bool), close, close.map(lambda number: -number))


class FingerprintsMachine(RuleBasedStateMachine):
    """Against a dict from fingerprint to the round in which it was last added."""

    def __init__(self) -> None:
        super().__init__()
        self.real = Fingerprints()
        self.model: dict[int, int] = {}
        self.round = 0

    @rule(numbers=st.lists(fingerprints, max_size=200))
    def add(self, numbers: list[int]) -> None:
        for number in numbers:
            assert self.real.add(number) is (number not in self.model)
            self.model[number] = self.round

    @rule()
    def round_ends(self) -> None:
        old = len(self.model)
        self.model = {number: added for number, added in self.model.items() if added == self.round}
        assert sum(self.real.sweep()) == old - len(self.model)
        self.real.begin_round()
        self.round += 1

    @rule(number=fingerprints)
    def look_up(self, number: int) -> None:
        assert (number in self.real) is (number in self.model)

    @invariant()
    def holds_the_same(self) -> None:
        assert len(self.real) == len(self.model)
        assert {number for segment in self.real.segments() for number in segment} == self.model.keys()


TestFingerprints = FingerprintsMachine.TestCase
TestFingerprints.settings = settings(max_examples=25, stateful_step_count=20)


def test_adding_while_a_sweep_goes_on_loses_nothing() -> None:
    known = Fingerprints()
    chance = random.Random(7)
    old, new = ([chance.getrandbits(62) + 1 for _ in range(20_000)] for _ in range(2))
    for number in old:
        known.add(number)
    known.begin_round()
    adding = iter(new)
    for _ in known.sweep():
        for _ in range(len(new) // SEGMENTS):
            known.add(next(adding))
    for number in adding:
        known.add(number)
    assert all(number in known for number in new)


@given(st.binary(max_size=100))
def test_no_fingerprint_is_zero_or_wider_than_64_bits(content: bytes) -> None:
    for fingerprint in (of_envelope(content, b"\xff"), of_envelope(content, b"\0"), of_key(content)):
        assert fingerprint
        assert -(2**63) <= fingerprint < 2**63


def test_an_envelope_has_the_same_fingerprint_in_every_process() -> None:
    assert of_envelope(bytes([1, *bytes(31)]), b"\2") == 2 * 2**56 + 1


@given(
    st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.sets(numbers, min_size=2, max_size=2)
)
def test_no_choice_of_ids_gives_envelopes_of_two_networks_one_fingerprint(
    one: bytes, other: bytes, networks: set[bytes]
) -> None:
    first, second = networks
    assert of_envelope(one, first) != of_envelope(other, second)
    assert of_envelope(one, first) != of_envelope(one, second)


def test_a_sweep_of_one_network_leaves_the_others() -> None:
    known = Fingerprints()
    ids = [number.to_bytes(32, "little") for number in range(1, 1000)]
    old = {network: [of_envelope(each, bytes([network])) for each in ids] for network in (1, 2, 255)}
    for fingerprint in chain(*old.values()):
        known.insert(fingerprint, 3)
    known.begin_round([1])
    known.begin_round([255])
    for fingerprint in old[255][:10]:
        known.refresh(fingerprint)
    assert sum(known.sweep([255])) == len(ids) - 10
    assert known.owned[3] == len(known) == 2 * len(ids) + 10
    assert all(fingerprint in known for fingerprint in (*old[1], *old[2], *old[255][:10]))
    assert sum(known.sweep([1])) == len(ids)
    assert sum(known.sweep([2])) == 0
    assert all(fingerprint in known for fingerprint in (*old[2], *old[255][:10]))


def test_each_networks_fingerprints_are_counted_until_they_are_forgotten() -> None:
    known = Fingerprints()
    for number in range(300):
        for network in (1, 2, 255):
            known.add(of_envelope(number.to_bytes(7), bytes([network])))
    assert [known.of_network[network] for network in (1, 2, 3, 255)] == [300, 300, 0, 300]
    known.begin_round([2])
    known.refresh(of_envelope((7).to_bytes(7), b"\2"))
    for _ in known.sweep([2]):
        pass
    assert [known.of_network[network] for network in (1, 2, 255)] == [300, 1, 300]
