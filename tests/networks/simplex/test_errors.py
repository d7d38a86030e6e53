import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.errors import ErrorType, read_error

WIRE = [
    "BLOCK",
    "SESSION",
    "CMD UNKNOWN",
    "CMD SYNTAX",
    "CMD PROHIBITED",
    "CMD NO_AUTH",
    "CMD HAS_AUTH",
    "CMD NO_ENTITY",
    "AUTH",
    "BLOCKED reason=spam",
    "BLOCKED reason=content",
    "SERVICE",
    "CRYPTO",
    "QUOTA",
    "NO_MSG",
    "LARGE_MSG",
    "EXPIRED",
    "INTERNAL",
]


@pytest.mark.parametrize("text", WIRE)
def test_each_error_is_read_as_it_is_written(text: str) -> None:
    assert read_error(text.encode()) == text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("STORE a secret of the server", ErrorType.STORE),
        ("PROXY BROKER TIMEOUT", ErrorType.PROXY),
        ('BLOCKED reason=spam,notice={"ttl":1}', ErrorType.BLOCKED_SPAM),
        ('BLOCKED reason=content,notice={"ttl":1}', ErrorType.BLOCKED_CONTENT),
    ],
)
def test_of_a_servers_own_text_nothing_is_kept(text: str, error: ErrorType) -> None:
    assert read_error(text.encode()) is error


_KNOWN = {error.encode() for error in ErrorType}
_STARTS = (b"STORE ", b"PROXY ", b"BLOCKED reason=")


@given(text=st.binary(max_size=20).filter(lambda text: text not in _KNOWN and not text.startswith(_STARTS)))
def test_anything_else_is_malformed(text: bytes) -> None:
    with pytest.raises(MalformedSimplex):
        read_error(text)
