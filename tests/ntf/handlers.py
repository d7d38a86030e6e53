"""What executes commands in place of AWS."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from clarion.networks.simplex.ntf import OK, NtfRequest


@dataclass
class Recording:
    """Answers by `answer`, and keeps what it was asked for. `gate` holds every command up while it is not set."""

    answer: Callable[[NtfRequest], bytes] = lambda _: OK
    gate: threading.Event = field(default_factory=threading.Event)
    begun: list[NtfRequest] = field(default_factory=list)
    at_work: int = 0
    most_at_work: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.gate.set()

    def execute(self, request: NtfRequest) -> bytes:
        with self._lock:
            self.begun.append(request)
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
        assert self.gate.wait(60)
        with self._lock:
            self.at_work -= 1
        return self.answer(request)
