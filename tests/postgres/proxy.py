"""Between a job and its database: connections that break while a transaction is committed.

A plan says what happens to each `COMMIT` that a client sends, in their order:

- `pass`: nothing.
- `before`: it never reaches the server, and the connection is closed.
- `after`: the server commits, and its answer is lost with the connection.
- `blind`: it reaches the server, and the connection is closed at once.
"""

import itertools
import socket
import threading

COMMIT = b"COMMIT\x00"
ANSWER = b"C" + (4 + len(COMMIT)).to_bytes(4, "big") + COMMIT


class Proxy:
    def __init__(self, port, plan=()):
        self.server_port = port
        self.plan = itertools.chain(plan, itertools.repeat("pass"))
        self.done = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.server_port))
        except OSError:
            client.close()
            return
        Link(self, client, server).run()

    def next(self):
        with self.lock:
            action = next(self.plan)
            self.done.append(action)
            return action

    def cuts(self):
        return [it for it in self.done if it != "pass"]

    def close(self):
        self.listener.close()


class Link:
    """One connection through the proxy."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        for it in (client, server):
            it.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.deaf = threading.Event()

    def run(self):
        threading.Thread(target=self.answers, daemon=True).start()
        tail = b""
        try:
            while piece := self.client.recv(65536):
                # The word may come in two pieces.
                seen = tail + piece
                tail = seen[-(len(COMMIT) - 1):]
                for _ in range(seen.count(COMMIT)):
                    if not self.commit(piece):
                        return
                    piece = b""
                self.server.sendall(piece)
        except OSError:
            pass
        finally:
            if not self.deaf.is_set():
                self.close()

    def commit(self, piece):
        """Whether the connection goes on."""
        action = self.proxy.next()
        if action == "after":
            self.deaf.set()
        if action != "before":
            self.server.sendall(piece)
        if action in ("before", "blind"):
            self.close()
        return action == "pass"

    def answers(self):
        seen = b""
        try:
            while piece := self.server.recv(65536):
                if not self.deaf.is_set():
                    self.client.sendall(piece)
                    continue
                seen += piece
                if ANSWER in seen:
                    break
        except OSError:
            pass
        self.close()

    def close(self):
        for it in (self.client, self.server):
            try:
                it.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            it.close()
