"""HTTP/2 by libcurl's multi interface: many requests at once over few connections, which live as long as the process.

libcurl was the fastest client that installs from wheels (`make bench-dispatch`). It follows the server's SETTINGS for
the number of streams, and repeats by itself what a GOAWAY or REFUSED_STREAM says was not processed. Requests of
different lanes never share a connection or wait for each other. https://curl.se/libcurl/c/libcurl-multi.html
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import certifi
import pycurl

WINDOW = 1000
"""Requests in flight at once in one lane."""
CONNECTIONS = 4
CONNECT_TIMEOUT_MS = 3_000
ANSWER_TIMEOUT_MS = 10_000
IDLE_SECONDS = 240
"""Routers forget connections that are idle for some 350 s: one that may be forgotten is not used again."""


class Request(NamedTuple):
    """A POST. Its headers and body hold secrets and are never shown."""

    url: str
    headers: list[str]
    body: bytes
    lane: str

    def __repr__(self) -> str:
        return f"Request(lane={self.lane!r})"


class Answer(NamedTuple):
    """`retry_after` is in seconds."""

    status: int
    body: bytes
    retry_after: int | None = None


class Fault(NamedTuple):
    """No answer came; whether the server acted on the request is unknown."""

    reason: str


type Result = Answer | Fault


class Transport:
    """Keeps its connections between calls, also while a Lambda is frozen. Not for use by several threads at once."""

    def __init__(self, ca_file: str | None = None) -> None:
        self._ca_file = ca_file or certifi.where()
        self._lanes: dict[str, _Lane] = {}

    def send(self, requests: Sequence[Request]) -> list[Result]:
        """The results in the order of the requests. A fault is tried once more, over new connections."""
        results = self._round(requests)
        failed = [at for at, result in enumerate(results) if isinstance(result, Fault)]
        if failed:
            for lane in {requests[at].lane for at in failed}:
                self._lanes.pop(lane).close()
            again = self._round([requests[at] for at in failed])
            for at, result in zip(failed, again, strict=True):
                results[at] = result
        return results

    def close(self) -> None:
        while self._lanes:
            self._lanes.popitem()[1].close()

    def _round(self, requests: Sequence[Request]) -> list[Result]:
        results: list[Result] = [Fault("not sent")] * len(requests)
        busy: set[_Lane] = set()
        for at, request in enumerate(requests):
            lane = self._lanes.get(request.lane)
            if lane is None:
                lane = self._lanes[request.lane] = _Lane(self._ca_file)
            lane.waiting.append((at, request))
            busy.add(lane)
        while busy:
            busy = {lane for lane in busy if lane.advance(results)}
        return results


class _Lane:
    """The connections to one provider as one app, and the requests that wait for or travel on them."""

    def __init__(self, ca_file: str) -> None:
        self.waiting: deque[tuple[int, Request]] = deque()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, 2)
        self._multi.setopt(pycurl.M_MAX_CONCURRENT_STREAMS, WINDOW)
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, CONNECTIONS)
        self._idle: list[pycurl.Curl] = []
        self._travelling: dict[pycurl.Curl, tuple[int, list[bytes]]] = {}
        self._ca_file = ca_file

    def advance(self, results: list[Result]) -> bool:
        """Move whatever can move; True while there is more to do."""
        while self.waiting and len(self._travelling) < WINDOW:
            self._start(*self.waiting.popleft())
        self._multi.perform()
        self._collect(results)
        if self._travelling:
            self._multi.select(0.1)
        return bool(self._travelling or self.waiting)

    def close(self) -> None:
        self._multi.close()

    def _start(self, at: int, request: Request) -> None:
        handle = self._idle.pop() if self._idle else self._new_handle()
        body: list[bytes] = []
        handle.setopt(pycurl.URL, request.url)
        handle.setopt(pycurl.HTTPHEADER, request.headers)
        handle.setopt(pycurl.POSTFIELDS, request.body)
        handle.setopt(pycurl.WRITEFUNCTION, body.append)
        self._travelling[handle] = (at, body)
        self._multi.add_handle(handle)

    def _new_handle(self) -> pycurl.Curl:
        handle = pycurl.Curl()
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        handle.setopt(pycurl.CAINFO, self._ca_file)
        handle.setopt(pycurl.PIPEWAIT, 1)
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS)
        handle.setopt(pycurl.TIMEOUT_MS, ANSWER_TIMEOUT_MS)
        handle.setopt(pycurl.MAXAGE_CONN, IDLE_SECONDS)
        return handle

    def _collect(self, results: list[Result]) -> None:
        left = 1
        while left:
            left, answered, failed = self._multi.info_read()
            for handle in answered:
                at, body = self._arrived(handle)
                after = handle.getinfo(pycurl.RETRY_AFTER) or None
                results[at] = Answer(handle.getinfo(pycurl.RESPONSE_CODE), b"".join(body), after)
            for handle, _, message in failed:
                at, _ = self._arrived(handle)
                results[at] = Fault(message)

    def _arrived(self, handle: pycurl.Curl) -> tuple[int, list[bytes]]:
        self._multi.remove_handle(handle)
        self._idle.append(handle)
        return self._travelling.pop(handle)
