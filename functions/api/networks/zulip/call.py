"""A call being answered: which server's it is, what came with it, and what its answer is built with."""

from dataclasses import dataclass
from uuid import UUID

from api.networks.zulip.arguments import Arguments, of_body, of_query
from api.networks.zulip.authentication import authenticated, realm_of
from api.networks.zulip.worker import ZulipWorker
from api.requests import Event, source_address
from clarion.networks.zulip.servers import Realm, Server


@dataclass(frozen=True, slots=True)
class PublicCall:
    """From anybody."""

    worker: ZulipWorker
    event: Event
    until: float
    """After that, by the monotonic clock, it puts nothing on a queue."""

    @property
    def now(self) -> int:
        """UNIX milliseconds."""
        return self.worker.now()

    @property
    def address(self) -> str:
        """The network address that it came from."""
        return source_address(self.event, behind_cloudfront=self.worker.origin is not None)

    def body[A: Arguments](self, kind: type[A]) -> A:
        return of_body(self.event, kind, self.worker.settings.body_bytes)

    def query[A: Arguments](self, kind: type[A]) -> A:
        return of_query(self.event, kind)


@dataclass(frozen=True, slots=True)
class ServerCall(PublicCall):
    """From a server that has authenticated itself."""

    server: Server

    @classmethod
    def of(cls, call: PublicCall) -> "ServerCall":
        """Raises `ZulipError` if it is nobody's who is known."""
        return cls(call.worker, call.event, call.until, authenticated(call.event["headers"], call.worker))

    @property
    def server_uuid(self) -> UUID:
        return UUID(self.server.server_uuid)

    @property
    def pushes_a_minute(self) -> int:
        """As many as the server may ask for."""
        return int(self.server.pushes_a_minute or self.worker.settings.pushes_per_minute)

    def realm(self, realm_uuid: UUID) -> Realm:
        """Raises `ZulipError` unless it is the server's."""
        return realm_of(self.server, realm_uuid, self.worker)
