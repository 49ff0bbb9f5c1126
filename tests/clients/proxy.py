"""A TCP proxy between a client and the broker that knows frames: it can lose an answer, or hold a request back.

    client ──▶ proxy ──▶ broker        rules: by request kind, what happens to the next one of it
           ◀──       ◀──               the broker's port in answers becomes the proxy's, so clients stay here

Each broker of a cluster has a proxy of its own (`proxies`), and they stand in for each other in answers."""

import socket
import struct
import threading

PRODUCE, FETCH, OFFSET_COMMIT, INIT_PRODUCER = 0, 1, 8, 22
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28

HELD = ("hold", "late")


class Rule:
    """`lose`: the request reaches the broker, its answer is thrown away and the connection is cut.
    `hold`: the request waits for release(), also when its client has gone.
    `late`: as `hold`, and the client is cut off at once."""

    def __init__(self, api, action, after):
        self.api, self.action, self.left = api, action, after
        self.met, self.released, self.answered = threading.Event(), threading.Event(), threading.Event()
        self.answer = None

    def release(self):
        self.released.set()


class Proxy:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.target, self.rules, self.lock = (host, int(port)), [], threading.Lock()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.swaps = [[b"127.0.0.1" + struct.pack(">i", it) for it in (self.target[1], self.port)]]
        self.sockets = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def next(self, api, action, after=0):
        """What happens to the next request of that kind, when `after` others have passed."""
        rule = Rule(api, action, after)
        with self.lock:
            self.rules.append(rule)
        return rule

    def close(self):
        self.listening.close()
        for it in list(self.sockets):
            it.close()

    def _rule(self, api):
        with self.lock:
            for rule in self.rules:
                if rule.api == api:
                    if rule.left == 0:
                        self.rules.remove(rule)
                        return rule
                    rule.left -= 1
        return None

    def _accept(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            for it in (client, broker):
                it.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sockets.add(it)
            flow = Flow(self, client, broker)
            threading.Thread(target=flow.requests, daemon=True).start()
            threading.Thread(target=flow.answers, daemon=True).start()


def proxies(addresses):
    """A proxy for each broker of a cluster."""
    found = [Proxy(it) for it in addresses]
    swaps = [swap for it in found for swap in it.swaps]
    for it in found:
        it.swaps = swaps
    return found


class Flow:
    """One connection of a client, and the one to the broker that belongs to it."""

    def __init__(self, proxy, client, broker):
        self.proxy, self.client, self.broker, self.rules = proxy, client, broker, {}

    def requests(self):
        try:
            while True:
                frame = read_frame(self.client)
                api, _, number = struct.unpack_from(">hhi", frame)
                rule = self.proxy._rule(api)
                if rule:
                    self.rules[number] = rule
                    rule.met.set()
                    if rule.action == "late":
                        cut(self.client)
                    if rule.action in HELD:
                        rule.released.wait()
                self.broker.sendall(struct.pack(">i", len(frame)) + frame)
        except OSError:
            # What was held is answered to nobody; the answer is still wanted.
            if not any(it.action in HELD and not it.answered.is_set() for it in self.rules.values()):
                cut(self.broker)

    def answers(self):
        try:
            while True:
                frame = read_frame(self.broker)
                rule = self.rules.pop(struct.unpack_from(">i", frame)[0], None)
                if rule:
                    rule.answer = frame
                    rule.answered.set()
                    if rule.action == "lose":
                        break
                for swap in self.proxy.swaps:
                    frame = frame.replace(*swap)
                try:
                    self.client.sendall(struct.pack(">i", len(frame)) + frame)
                except OSError:
                    pass
        except OSError:
            pass
        cut(self.client)
        cut(self.broker)


def cut(it):
    try:
        it.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    it.close()


def read_frame(source):
    return read(source, struct.unpack(">i", read(source, 4))[0])


def read(source, count):
    found = bytearray()
    while len(found) < count:
        part = source.recv(min(1 << 20, count - len(found)))
        if not part:
            raise OSError("closed")
        found += part
    return bytes(found)
