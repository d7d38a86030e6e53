"""libcurl's multi interface and nothing else: requests that were made beforehand, and their statuses."""

from collections import Counter
from itertools import islice
from uuid import uuid4

import pycurl

from bench.senders.task import IN_FLIGHT, TOPIC, SendingTask, given, measure

SLICE = 200
"""As in Clarion's transport: starting few at a time makes libcurl faster, so the floor gets it as well."""


def handle_for(task: SendingTask) -> pycurl.Curl:
    handle = pycurl.Curl()
    handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
    handle.setopt(pycurl.CAINFO, str(task.ca_file))
    handle.setopt(pycurl.PIPEWAIT, 1)
    handle.setopt(pycurl.NOSIGNAL, 1)
    handle.setopt(pycurl.WRITEFUNCTION, len)
    return handle


def request(task: SendingTask) -> tuple[str, list[str], bytes]:
    headers = [
        f"authorization: bearer {'x' * 180}",
        f"apns-topic: {TOPIC}",
        "apns-push-type: alert",
        "apns-priority: 10",
        "apns-expiration: 1800003600",
        f"apns-id: {uuid4()}",
        f"apns-collapse-id: {uuid4().hex}{uuid4().hex}",
    ]
    return f"{task.url}/3/device/{uuid4().hex}{uuid4().hex}", headers, b"x" * 730


def main() -> None:
    task = given()
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAX_CONCURRENT_STREAMS, 1000)
    idle = [handle_for(task) for _ in range(IN_FLIGHT)]
    requests = [request(task) for _ in range(task.pushes)]

    def send(count: int) -> Counter[int]:
        statuses: Counter[int] = Counter()
        waiting = iter(requests[:count])
        while statuses.total() < count:
            for following in islice(waiting, min(SLICE, len(idle))):
                handle = idle.pop()
                handle.setopt(pycurl.URL, following[0])
                handle.setopt(pycurl.HTTPHEADER, following[1])
                handle.setopt(pycurl.POSTFIELDS, following[2])
                multi.add_handle(handle)
            multi.perform()
            left = 1
            while left:
                left, answered, failed = multi.info_read()
                for handle in [*answered, *(handle for handle, _, _ in failed)]:
                    statuses[handle.getinfo(pycurl.RESPONSE_CODE)] += 1
                    multi.remove_handle(handle)
                    idle.append(handle)
            if not idle or statuses.total() + IN_FLIGHT - len(idle) == count:
                multi.select(0.1)
        return statuses

    measure(task.pushes, send)


if __name__ == "__main__":
    main()
