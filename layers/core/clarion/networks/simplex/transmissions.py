"""Transmissions: one command or answer of either protocol.

    authorization ++ correlation id ++ entity id ++ command                    short strings, but for the command
    authorization ++ session id ++ correlation id ++ entity id ++ command      version 1 of NTF

Whatever the version, what is authorized begins with the session id.
"""

from dataclasses import dataclass, field

from clarion.networks.simplex.encoding import MalformedSimplex, Reader, short

MOST_ID_BYTES = 64
"""Any answer fits into a block beside two ids, which it repeats. All that is known of have 24 bytes at most."""


@dataclass(frozen=True, slots=True)
class Transmission:
    """`entity_id` is a token's, a subscription's or a queue's, empty for none. `session_id` is None where it is implied."""

    correlation_id: bytes
    entity_id: bytes = field(repr=False)
    command: bytes = field(repr=False)
    authorization: bytes = field(default=b"", repr=False)
    session_id: bytes | None = field(default=None, repr=False)

    @property
    def encoded(self) -> bytes:
        session = b"" if self.session_id is None else short(self.session_id)
        return short(self.authorization) + session + self._content

    def signed(self, session_id: bytes) -> bytes:
        """What is authorized in this session."""
        return short(session_id) + self._content

    @property
    def _content(self) -> bytes:
        return short(self.correlation_id) + short(self.entity_id) + self.command


def read_transmission(raw: bytes, *, names_session: bool = False) -> Transmission:
    """Raises `MalformedSimplex`."""
    reader = Reader(raw)
    authorization = reader.short()
    session_id = reader.short() if names_session else None
    return Transmission(read_id(reader), read_id(reader), reader.rest(), authorization, session_id)


def read_id(reader: Reader) -> bytes:
    """Raises `MalformedSimplex`."""
    found = reader.short()
    if len(found) > MOST_ID_BYTES:
        raise MalformedSimplex("too long an id")
    return found
