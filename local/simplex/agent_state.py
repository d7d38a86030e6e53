"""What an agent keeps: its token, its connections, and of each what is to be done next, before it is done."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from local.simplex.codec import b64, unb64
from local.simplex.stream import SimplexAddress


class AgentMode(StrEnum):
    INSTANT = "instant"
    PERIODIC = "periodic"


class TokenStep(StrEnum):
    """What the token's registration goes on with; `WAIT` is for the code, which a push brings."""

    REGISTER = "register"
    WAIT = "wait"
    VERIFY = "verify"
    CHECK = "check"


class QueueStep(StrEnum):
    SMP_KEY = "smp_key"
    CREATE = "create"
    CHECK = "check"
    SMP_DELETE = "smp_delete"


@dataclass
class AgentToken:
    """`provider` is one of AP, AD and AT; keys are in DER, private; `secret` is what pushes are sealed with."""

    provider: str
    device_token: str = field(repr=False)
    mode: AgentMode
    key: bytes = field(repr=False)
    dh_key: bytes = field(repr=False)
    step: TokenStep = TokenStep.REGISTER
    id: bytes = b""
    secret: bytes = field(default=b"", repr=False)
    code: bytes = field(default=b"", repr=False)
    active: bool = False


@dataclass
class AgentQueue:
    """Where messages are received, and what its notifications go by; `step` is none while they are off."""

    server: SimplexAddress
    key: bytes = field(repr=False)
    recipient_id: bytes
    sender_id: bytes
    step: QueueStep | None = None
    notifier_key: bytes = field(default=b"", repr=False)
    notifier_id: bytes = b""
    notifier_secret: bytes = field(default=b"", repr=False)
    subscription_id: bytes = b""
    status: str = ""
    last_seen: int | None = None
    """When the newest message that the app has fetched came to the server."""

    @property
    def place(self) -> tuple[tuple[str, ...], str, bytes]:
        """By which a notification finds the queue: the hosts as they were said, the port, and the notifier."""
        return self.server.hosts, self.server.port, self.notifier_id

    def forget_notifier(self) -> None:
        self.notifier_key = self.notifier_id = self.notifier_secret = self.subscription_id = b""
        self.status = ""


@dataclass
class AgentState:
    """Of one device. `save` comes before each step that the state says is next, so that it goes on after a restart."""

    file: Path
    token: AgentToken | None = None
    queues: list[AgentQueue] = field(default_factory=list)

    @classmethod
    def loaded(cls, file: Path) -> Self:
        """Empty if there is no file."""
        if not file.exists():
            return cls(file)
        kept = json.loads(file.read_text())
        token = AgentToken(**_values(AgentToken, kept["token"])) if kept["token"] else None
        return cls(file, token, [_queue(each) for each in kept["queues"]])

    def save(self) -> None:
        token = asdict(self.token) if self.token else None
        kept = {"token": token, "queues": [asdict(each) for each in self.queues]}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(kept, default=b64))
        new.replace(self.file)


_READ: Mapping[object, Any] = {
    bytes: unb64,
    AgentMode: AgentMode,
    TokenStep: TokenStep,
    QueueStep | None: lambda text: QueueStep(text) if text else None,
}


def _values(kind: type[AgentToken | AgentQueue], kept: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: _READ.get(each.type, lambda value: value)(kept[each.name]) for each in fields(kind)}


def _queue(kept: Mapping[str, Any]) -> AgentQueue:
    values, server = _values(AgentQueue, kept), kept["server"]
    address = SimplexAddress(unb64(server["key_hash"]), tuple(server["hosts"]), server["port"])
    return AgentQueue(**{**values, "server": address})
