"""What the stand-ins for APNs and FCM have in common: the journal, the clock, and devices that ask for trouble."""

import argparse
import asyncio
import json
import ssl
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from local.http2 import Connection, Headers, Http2Server, Misbehaviour, Response, ServedAnswer, ServedRequest

Clock = Callable[[], float]
"""UNIX seconds."""

_RECEIVED = "/_stand-in/received"
_PAGE = 1000
_KEPT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a stand-in behaves towards everybody; `delay`, before each answer, is in seconds, and port 0 is a free one.

    APNs allows `max_streams` only after the first valid provider token, and one until then.
    """

    port: int = 0
    max_streams: int = 1000
    delay: float = 0.0
    now: Clock = time.time


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """What a device asks its stand-in to do, by the prefix of its token.

    `failure` is an error's name or a misbehaviour; with `times`, only the first so many pushes meet it. `retry_after`
    and `ago` are seconds: the header's value, and how long ago the token died.
    """

    failure: str | Misbehaviour | None = None
    delay: float = 0.0
    retry_after: int | None = None
    times: int | None = None
    ago: int = 0


class Ruling(NamedTuple):
    """How the stand-in answered a push: status 0 is no answer, `reason` None is acceptance."""

    status: int
    reason: str | None = None
    push_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReceivedPush:
    """A push as it came and what was answered; `headers` are without the authorization."""

    number: int
    at: float
    token: str = field(repr=False)
    headers: dict[str, str]
    payload: Any
    status: int
    reason: str | None
    push_id: str | None

    @property
    def accepted(self) -> bool:
        return self.reason is None


class Journal:
    """Every push in order, numbered from 0; the newest 100,000 are kept."""

    def __init__(self) -> None:
        self.count = 0
        self._pushes: deque[ReceivedPush] = deque(maxlen=_KEPT)
        self._news = asyncio.Event()

    def __iter__(self) -> Iterator[ReceivedPush]:
        return iter(self._pushes)

    def __len__(self) -> int:
        return len(self._pushes)

    def __getitem__(self, index: int) -> ReceivedPush:
        return self._pushes[index]

    def note(self, push: ReceivedPush) -> None:
        self.count += 1
        self._pushes.append(push)
        self._news.set()

    def since(self, number: int) -> list[ReceivedPush]:
        """At most 1,000 pushes from `number` on."""
        oldest = self.count - len(self._pushes)
        start = max(number - oldest, 0)
        return list(islice(self._pushes, start, start + _PAGE))

    async def until(self, count: int) -> list[ReceivedPush]:
        """Waits for `count` pushes in all and returns what is kept of them."""
        while self.count < count:
            self._news.clear()
            await self._news.wait()
        return list(self._pushes)


class StandIn(Http2Server, ABC):
    """A provider on this machine, which keeps a journal.

    Another process reads it with `GET /_stand-in/received?since=N`: `{"pushes": [...], "next": M}`, at most 1,000
    pushes at once; ask again from M.
    """

    def __init__(self, context: ssl.SSLContext, *, first_streams: int, options: Options) -> None:
        super().__init__(self._answer, context, max_streams=first_streams, port=options.port)
        self.received = Journal()
        self.now = options.now
        self.outage: str | None = None
        """The failure that every push meets, whoever it is for."""
        self._delay = options.delay
        self._met: Counter[str] = Counter()

    @abstractmethod
    def respond(self, request: ServedRequest, connection: Connection) -> ServedAnswer:
        """How this provider answers a request; each subclass is one provider."""

    def note(self, request: ServedRequest, token: str, payload: Any, ruling: Ruling) -> None:
        headers = {name: value for name, value in request.headers if name != "authorization"}
        self.received.note(ReceivedPush(self.received.count, self.now(), token, headers, payload, *ruling))

    def meet(self, token: str, trouble: InjectedFault) -> str | Misbehaviour | None:
        """The failure that this push of the device meets, which counts it."""
        if self.outage is not None:
            return self.outage
        if trouble.failure is None or trouble.times is None:
            return trouble.failure
        self._met[token] += 1
        return trouble.failure if self._met[token] <= trouble.times else None

    def after(self, trouble: InjectedFault, outcome: Response | Misbehaviour) -> ServedAnswer:
        return ServedAnswer(outcome, trouble.delay + self._delay)

    def control(self, request: ServedRequest) -> Response | None:
        """The answer to a request about the stand-in itself; None for one to the provider that it stands for."""
        url = urlsplit(request.path)
        if url.path != _RECEIVED:
            return None
        since = parse_qs(url.query).get("since", ["0"])[0]
        return self._page(int(since) if since.isdecimal() else 0)

    def _answer(self, request: ServedRequest, connection: Connection) -> ServedAnswer:
        answer = self.control(request)
        return ServedAnswer(answer) if answer else self.respond(request, connection)

    def _page(self, since: int) -> Response:
        pushes = self.received.since(since)
        following = pushes[-1].number + 1 if pushes else self.received.count
        return json_response(200, {"pushes": [asdict(push) for push in pushes], "next": following})


def json_response(status: int, content: dict[str, Any], headers: Headers = ()) -> Response:
    body = json.dumps(content, separators=(",", ":")).encode()
    return Response(status, (("content-type", "application/json"), *headers), body)


def parse_json(body: bytes) -> Any:
    """None for what is no JSON."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=DEFAULTS.port)
    parser.add_argument("--max-streams", type=int, default=DEFAULTS.max_streams)
    parser.add_argument("--delay-ms", type=int, default=0, help="think so long before each answer")


def options_of(arguments: argparse.Namespace) -> Options:
    return Options(port=arguments.port, max_streams=arguments.max_streams, delay=arguments.delay_ms / 1000)
