import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.simplex.addresses import SmpQueue, SmpServer, ntf_address, read_queue
from clarion.networks.simplex.encoding import MalformedSimplex, Reader, items, short

IDENTITY = bytes(range(32))
TEXT = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
SERVER = SmpServer(("a.example", "b.onion"), "5223", IDENTITY)
QUEUE = SmpQueue(SERVER, b"\xfb\xff")
ENCODED = "02 09 612e6578616d706c65 07 622e6f6e696f6e 04 35323233 20" + IDENTITY.hex() + "02 fbff"
HOSTS = st.from_regex(r"[a-z0-9.-]{1,40}", fullmatch=True) | st.sampled_from(["[::1]", "192.0.2.1"])


def encoded(*hosts: bytes, port: bytes = b"", identity: bytes = IDENTITY, notifier_id: bytes = b"n") -> Reader:
    return Reader(items(map(short, hosts)) + short(port) + short(identity) + short(notifier_id))


def test_a_queue_has_these_bytes() -> None:
    assert QUEUE.encoded == bytes.fromhex(ENCODED)
    assert read_queue(Reader(QUEUE.encoded)) == QUEUE


def test_a_queue_has_this_address() -> None:
    assert QUEUE.uri == f"smp://{TEXT}@a.example,b.onion:5223/-_8="
    assert SmpQueue(SmpServer(("a.example",), "", IDENTITY), b"n").uri == f"smp://{TEXT}@a.example/bg=="


def test_our_address_has_a_port_unless_it_is_the_usual_one() -> None:
    assert ntf_address(IDENTITY, ["ntf.example"]) == f"ntf://{TEXT}@ntf.example"
    assert ntf_address(IDENTITY, ["ntf.example", "n.onion"], 5443) == f"ntf://{TEXT}@ntf.example,n.onion:5443"


@given(
    hosts=st.lists(HOSTS, min_size=1, max_size=5),
    port=st.just("") | st.integers(0, 65_535).map(str) | st.just("00443"),
    notifier_id=st.binary(min_size=1, max_size=64),
)
def test_hosts_and_ports_stay_as_they_came(hosts: list[str], port: str, notifier_id: bytes) -> None:
    queue = SmpQueue(SmpServer(tuple(hosts), port, IDENTITY), notifier_id)
    reader = Reader(queue.encoded)
    assert read_queue(reader) == queue
    reader.end()


@pytest.mark.parametrize(
    "reader",
    [
        encoded(),
        encoded(b""),
        encoded(b"a.example", b"b example"),
        encoded(b"a.example;smp:"),
        encoded(b"a,b"),
        encoded(b"a/b"),
        encoded(b"a\n"),
        encoded("ä.example".encode()),
        encoded(b"a", port=b"65536"),
        encoded(b"a", port=b"-1"),
        encoded(b"a", port="٣".encode()),
        encoded(b"a", port=b"1\n"),
        encoded(b"a", port=b"000443"),
        encoded(b"a", identity=b"i" * 31),
        encoded(b"a", identity=b"i" * 33),
        encoded(b"a", notifier_id=b""),
        encoded(b"a", notifier_id=b"n" * 65),
    ],
)
def test_what_would_not_stand_in_an_item_is_malformed(reader: Reader) -> None:
    with pytest.raises(MalformedSimplex):
        read_queue(reader)


def test_the_id_does_not_show() -> None:
    assert "fbff" not in repr(QUEUE)
    assert "\\xfb\\xff" not in repr(QUEUE)
