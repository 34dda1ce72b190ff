"""The network between a program and a server of this host, which a test cuts and mends."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Self

from tests.end_to_end.processes import free_port

_CHUNK = 65_536


class Wire:
    """Passes on what comes to `port`. While it is cut, nothing answers there, and what was connected no longer is."""

    def __init__(self, to: int) -> None:
        self._to = to
        self.port = free_port()
        self._ends: set[socket.socket] = set()
        self._lock = Lock()

    def __enter__(self) -> Self:
        self.mend()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def cut(self) -> None:
        _close(self._listener)
        self._accepting.join()
        with self._lock:
            for end in self._ends:
                _close(end)

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accepting = Thread(target=self._accept, args=(self._listener,))
        self._accepting.start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            _close(near)
            return
        with self._lock:
            self._ends |= {near, far}
        for source, sink in ((near, far), (far, near)):
            Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                sink.sendall(chunk)
        with self._lock:
            for end in (source, sink):
                _close(end)
            self._ends -= {source, sink}


def _close(end: socket.socket) -> None:
    """Also wakes up who waits for it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
