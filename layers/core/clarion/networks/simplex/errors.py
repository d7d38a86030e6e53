"""What a server of either protocol answers instead, as it stands after `ERR `."""

from enum import StrEnum

from clarion.networks.simplex.encoding import MalformedSimplex


class ErrorType(StrEnum):
    BLOCK = "BLOCK"
    SESSION = "SESSION"
    CMD_UNKNOWN = "CMD UNKNOWN"
    CMD_SYNTAX = "CMD SYNTAX"
    CMD_PROHIBITED = "CMD PROHIBITED"
    CMD_NO_AUTH = "CMD NO_AUTH"
    CMD_HAS_AUTH = "CMD HAS_AUTH"
    CMD_NO_ENTITY = "CMD NO_ENTITY"
    PROXY = "PROXY"
    AUTH = "AUTH"
    BLOCKED_SPAM = "BLOCKED reason=spam"
    BLOCKED_CONTENT = "BLOCKED reason=content"
    SERVICE = "SERVICE"
    CRYPTO = "CRYPTO"
    QUOTA = "QUOTA"
    STORE = "STORE unavailable"
    NO_MSG = "NO_MSG"
    LARGE_MSG = "LARGE_MSG"
    EXPIRED = "EXPIRED"
    INTERNAL = "INTERNAL"


_BY_START = {
    b"STORE ": ErrorType.STORE,
    b"PROXY ": ErrorType.PROXY,
    b"BLOCKED reason=spam,notice=": ErrorType.BLOCKED_SPAM,
    b"BLOCKED reason=content,notice=": ErrorType.BLOCKED_CONTENT,
}
"""What follows is the server's own text, which nobody here repeats."""


def read_error(text: bytes) -> ErrorType:
    """Raises `MalformedSimplex`."""
    for start, error in _BY_START.items():
        if text.startswith(start):
            return error
    try:
        return ErrorType(text.decode("ascii"))
    except ValueError:
        raise MalformedSimplex("no such error") from None
