"""A relay in front of a provider that counts what is sent to it, encrypted as it is."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread


class Relay:
    """`sent` are the bytes that clients sent through, without the headers of TCP and IP."""

    def __init__(self, port: int) -> None:
        self.sent = 0
        self._provider = port
        self._listener = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Until it is closed. Connections end with their clients."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            provider = socket.create_connection(("127.0.0.1", self._provider))
            Thread(target=self._pass_on, args=(client, provider), kwargs={"counted": True}, daemon=True).start()
            Thread(target=self._pass_on, args=(provider, client), daemon=True).start()

    def close(self) -> None:
        # To close a socket wakes nobody who accepts on it.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _pass_on(self, source: socket.socket, target: socket.socket, *, counted: bool = False) -> None:
        with source, target, suppress(OSError):  # either side has closed
            while received := source.recv(1 << 16):
                self.sent += len(received) if counted else 0
                target.sendall(received)


@contextmanager
def relay_to(port: int) -> Iterator[Relay]:
    relay = Relay(port)
    thread = Thread(target=relay.serve)
    thread.start()
    try:
        yield relay
    finally:
        relay.close()
        thread.join()
