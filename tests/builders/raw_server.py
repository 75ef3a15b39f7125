"""A server on loopback that sends bytes, whether they are HTTP or not."""

import contextlib
import socket
import threading


class RawServer:
    """Sends the same bytes to whoever connects, and hangs up."""

    def __init__(self, reply: bytes = b"") -> None:
        self.reply = reply
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                connection.recv(65536)
                self.send(connection)

    def send(self, connection: socket.socket) -> None:
        """Answer whoever has connected."""
        connection.sendall(self.reply)

    def close(self) -> None:
        """End it; whoever connects now is refused."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
