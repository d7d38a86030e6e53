"""HTTP/2 by libcurl's multi interface: many requests at once over few connections, which live as long as the process.

libcurl was the fastest client that installs from wheels (`make bench-dispatch`). It follows the server's SETTINGS for
the number of streams, and repeats by itself what a GOAWAY or REFUSED_STREAM says was not processed. Requests of
different lanes never share a connection or wait for each other. https://curl.se/libcurl/c/libcurl-multi.html

Redirects are not followed: they are answers like others.
"""

import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import certifi
import pycurl
from pydantic_core import from_json

from clarion.providers.public_addresses import open_public_socket

WINDOW = 2000
"""Requests in flight at once in one lane."""
SLICE = 200
"""Requests that are started before the next look at what has been answered."""
CONNECTIONS = 4
"""of one lane, if the server allows fewer streams than are wanted"""
MAX_WAIT = 0.1
"""Seconds after which we look again at the latest, whatever libcurl says."""
IDLE_SECONDS = 240
"""Routers forget a connection that is idle for some 350 s: one that may be forgotten is not used again."""

ANSWER_BYTES = 16_384
"""Of a body at most; providers' answers have a few hundred, and an access token one or two thousand."""

# https://curl.se/libcurl/c/libcurl-errors.html
BROKEN = {
    pycurl.E_SEND_ERROR,
    pycurl.E_RECV_ERROR,
    pycurl.E_GOT_NOTHING,
    pycurl.E_PARTIAL_FILE,
    pycurl.E_HTTP2,
}


class Request(NamedTuple):
    """A POST, or without a body a GET. Its headers and body hold secrets and are never shown.

    `public`, for a host that a client has chosen: no connection is opened to a private IP address.
    """

    url: str
    headers: list[str]
    body: bytes | None
    lane: str
    public: bool = False

    def __repr__(self) -> str:
        return f"Request(lane={self.lane!r})"


class Answer(NamedTuple):
    """`retry_after` is in seconds. The body may hold an access token and is never shown; one over the limit is empty."""

    status: int
    body: bytes
    retry_after: int | None = None

    def json(self) -> Any:
        """None for a body that is no JSON, or is nested more than 200 deep, which is the parser's own limit."""
        try:
            return from_json(self.body)
        except ValueError:
            return None

    def __repr__(self) -> str:
        return f"Answer(status={self.status}, retry_after={self.retry_after})"


_HTTP2_STREAM = 92
"""CURLE_HTTP2_STREAM, which pycurl has no name for."""
FAULTS = {
    pycurl.E_COULDNT_RESOLVE_HOST: "host not resolved",
    pycurl.E_COULDNT_CONNECT: "not connected",
    pycurl.E_OPERATION_TIMEDOUT: "timed out",
    pycurl.E_SSL_CONNECT_ERROR: "no TLS connection",
    pycurl.E_PEER_FAILED_VERIFICATION: "certificate not accepted",
    pycurl.E_SEND_ERROR: "connection lost",
    pycurl.E_RECV_ERROR: "connection lost",
    pycurl.E_GOT_NOTHING: "connection lost",
    pycurl.E_HTTP2: "HTTP/2 error",
    _HTTP2_STREAM: "HTTP/2 stream reset",
}


class Fault(NamedTuple):
    """No answer came; whether the server acted on the request is unknown. `code` is libcurl's."""

    code: int
    reason: str


class Timeouts(NamedTuple):
    """Seconds. An answer takes 10 to 100 ms."""

    connect: float = 3.0
    answer: float = 5.0


type Result = Answer | Fault
type Position = int
type LaneKey = tuple[str, bool]
"""A lane's name, and whether it opens connections to public IP addresses alone."""


class Transport:
    """Keeps its connections between calls, also while a Lambda is frozen.

    Several threads may send at once as long as no two of them use the same lane.
    `clock` is in UNIX seconds, since others may stand still during a freeze.
    """

    def __init__(
        self,
        ca_file: str | None = None,
        timeouts: Timeouts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ca_file = ca_file or certifi.where()
        self._timeouts = timeouts or Timeouts()
        self._clock = clock
        self._lanes: dict[LaneKey, _Lane] = {}

    def send(self, requests: Iterable[Request]) -> list[Result]:
        """The results in the order of the requests, which are taken as they can be sent.

        Requests that were lost with a connection are sent once more at once, over a new one.
        """
        sent: list[Request] = []
        results: dict[Position, Result] = {}
        self._round(_noted(requests, sent), results)
        faults = {at: result for at, result in results.items() if isinstance(result, Fault)}
        lost = [at for at, fault in faults.items() if self._lanes[_lane_of(sent[at])].lost(fault)]
        for key in {_lane_of(sent[at]) for at in lost}:
            if self._lanes[key].silent:
                self._lanes.pop(key).close()
        self._round(((at, sent[at]) for at in lost), results)
        return [results[at] for at in range(len(sent))]

    def close(self) -> None:
        while self._lanes:
            self._lanes.popitem()[1].close()

    def _round(self, requests: Iterator[tuple[Position, Request]], results: dict[Position, Result]) -> None:
        used: dict[LaneKey, _Lane] = {}
        busy: set[_Lane] = set()
        while True:
            following = list(islice(requests, SLICE))
            for at, request in following:
                key = _lane_of(request)
                if key not in used:
                    used[key] = self._begin(key)
                lane = used[key]
                lane.waiting.append((at, request))
                busy.add(lane)
            busy = {lane for lane in busy if lane.advance(results)}
            if not following and not busy:
                break
            if not following and not any(lane.has_room for lane in busy):
                _wait(busy)
        for lane in used.values():
            lane.used_at = self._clock()

    def _begin(self, key: LaneKey) -> "_Lane":
        lane = self._lanes.get(key)
        if lane is not None and self._clock() - lane.used_at > IDLE_SECONDS:
            lane.close()
            lane = None
        if lane is None:
            _, public = key
            lane = self._lanes[key] = _Lane(self._ca_file, self._timeouts, public=public)
        lane.begin_round()
        return lane


class _Lane:
    """The connections to one provider as one app, and the requests that wait for or travel on them.

    `answers` counts those of the current round; `used_at`, in UNIX seconds, is when the last one ended.
    """

    def __init__(self, ca_file: str, timeouts: Timeouts, *, public: bool) -> None:
        self.waiting: deque[tuple[Position, Request]] = deque()
        self.answers = 0
        self.used_at = 0.0
        self._proven = False
        self._ca_file = ca_file
        self._timeouts = timeouts
        self._public = public
        self._idle: list[pycurl.Curl] = []
        self._bodies: dict[pycurl.Curl, bytearray] = {}
        self._travelling: dict[pycurl.Curl, Position] = {}
        self.multi = pycurl.CurlMulti()
        self.multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self.multi.setopt(pycurl.M_MAX_CONCURRENT_STREAMS, WINDOW)
        self.multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, CONNECTIONS)

    def begin_round(self) -> None:
        self._proven = self._proven or self.answers > 0
        self.answers = 0

    def advance(self, results: dict[Position, Result]) -> bool:
        """Move whatever can move; True while there is more to do."""
        for _ in range(min(SLICE, len(self.waiting), WINDOW - len(self._travelling))):
            self._start(*self.waiting.popleft())
        self.multi.perform()
        self._collect(results)
        return bool(self._travelling or self.waiting)

    @property
    def has_room(self) -> bool:
        """Whether something waits that could travel already."""
        return bool(self.waiting) and len(self._travelling) < WINDOW

    @property
    def silent(self) -> bool:
        """Whether connections that had worked brought no answer in this round, as after a Lambda's freeze."""
        return self._proven and not self.answers

    def lost(self, fault: Fault) -> bool:
        """Whether it was the connection that failed, and not the server."""
        return self.silent if fault.code == pycurl.E_OPERATION_TIMEDOUT else fault.code in BROKEN

    def close(self) -> None:
        self.multi.close()

    def _start(self, at: Position, request: Request) -> None:
        handle = self._idle.pop() if self._idle else self._new_handle()
        handle.setopt(pycurl.URL, request.url)
        handle.setopt(pycurl.HTTPHEADER, request.headers)
        if request.body is None:
            handle.setopt(pycurl.HTTPGET, 1)
        else:
            handle.setopt(pycurl.POSTFIELDS, request.body)
        self._travelling[handle] = at
        self.multi.add_handle(handle)

    def _new_handle(self) -> pycurl.Curl:
        handle = pycurl.Curl()
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        handle.setopt(pycurl.CAINFO, self._ca_file)
        handle.setopt(pycurl.PROXY, "")
        handle.setopt(pycurl.FOLLOWLOCATION, 0)
        handle.setopt(pycurl.PIPEWAIT, 1)
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.CONNECTTIMEOUT_MS, round(1000 * self._timeouts.connect))
        handle.setopt(pycurl.TIMEOUT_MS, round(1000 * self._timeouts.answer))
        handle.setopt(pycurl.MAXAGE_CONN, IDLE_SECONDS)
        if self._public:
            handle.setopt(pycurl.OPENSOCKETFUNCTION, open_public_socket)
        body = self._bodies[handle] = bytearray()

        def write(part: bytes) -> int:
            # Whatever is not the part's length ends the transfer with E_WRITE_ERROR.
            if len(body) + len(part) > ANSWER_BYTES:
                return -1
            body.extend(part)
            return len(part)

        handle.setopt(pycurl.WRITEFUNCTION, write)
        return handle

    def _collect(self, results: dict[Position, Result]) -> None:
        left = 1
        while left:
            left, answered, failed = self.multi.info_read()
            self.answers += len(answered)
            for handle in answered:
                at, body = self._arrived(handle)
                results[at] = _answer(handle, body)
            for handle, code, _ in failed:
                at, _ = self._arrived(handle)
                # Only a body that is too long is not taken, and the status came before it.
                results[at] = _answer(handle, b"") if code == pycurl.E_WRITE_ERROR else Fault(code, _reason(code))

    def _arrived(self, handle: pycurl.Curl) -> tuple[Position, bytes]:
        self.multi.remove_handle(handle)
        self._idle.append(handle)
        body = bytes(self._bodies[handle])
        self._bodies[handle].clear()
        return self._travelling.pop(handle), body


def _lane_of(request: Request) -> LaneKey:
    return request.lane, request.public


def _reason(code: int) -> str:
    """In our words: libcurl's text holds the host, which a client may have chosen, and measured times."""
    return FAULTS.get(code, f"libcurl error {code}")


def _answer(handle: pycurl.Curl, body: bytes) -> Answer:
    status = handle.getinfo(pycurl.RESPONSE_CODE)
    after = handle.getinfo(pycurl.RETRY_AFTER) if status != 200 else 0
    return Answer(status, body, after or None)


def _wait(lanes: Iterable[_Lane]) -> None:
    """Until any connection has news or libcurl is due to look at the time."""
    reading: list[int] = []
    writing: list[int] = []
    patience = MAX_WAIT
    for lane in lanes:
        readable, writable, _ = lane.multi.fdset()
        reading += readable
        writing += writable
        due = lane.multi.timeout()
        patience = min(patience, due / 1000) if due >= 0 else patience
    select.select(reading, writing, [], patience)


def _noted(requests: Iterable[Request], sent: list[Request]) -> Iterator[tuple[Position, Request]]:
    for at, request in enumerate(requests):
        sent.append(request)
        yield at, request
