"""A flood from many hostile clients in one process: python3 -m harness.flood ADDRESS PROTOCOL CLIENTS PER_SECOND SECONDS.

Each client does one kind of harm again and again: connects and closes, sends garbage, lets a head trickle in, stops in the middle of a body,
asks for long answers and does not read them, sends management records, chunks with long extensions. Prints what it did as JSON.
"""
import json
import random
import socket
import struct
import sys
import time

HELD = 4


def connect(address):
    if address.startswith('unix:'):
        connection, place = socket.socket(socket.AF_UNIX), address[5:]
    else:
        connection = socket.socket()
        host, port = address.rsplit(':', 1)
        place = (host, int(port))
    connection.settimeout(0.5)
    connection.connect(place)
    connection.setblocking(False)
    return connection


class Client:
    """Holds a few connections and does one thing with one of them at a time."""

    def __init__(self, address, act, number):
        self.address, self.act, self.held, self.random = address, act, [], random.Random(number)
        self.connections = self.refused = 0

    def step(self):
        try:
            self.act(self)
        except OSError:
            self.refused += 1

    def new(self):
        self.connections += 1
        return connect(self.address)

    def send_on_held(self, first, further):
        """Goes on with a connection it has, or begins another in place of the oldest."""
        if len(self.held) == HELD and self.random.random() < 0.9:
            connection = self.held.pop(0)
            data = further
        else:
            if len(self.held) == HELD:
                self.held.pop(0).close()
            connection = self.new()
            data = first
        try:
            connection.send(data)
        except BlockingIOError:
            pass
        except OSError:
            connection.close()
            self.refused += 1
            return
        self.held.append(connection)


def connects(client):
    for _ in range(5):
        client.new().close()


def garbage(client):
    with client.new() as connection:
        connection.send(client.random.randbytes(client.random.randrange(1, 4000)))


def record(kind, content, request):
    return struct.pack('>BBHHBB', 1, kind, request, len(content), 0, 0) + content


def slow_head(client):
    client.send_on_held(b'GET /slow HTTP/1.1\r\nHost: x\r\nX-', b'a')


def half_body(client):
    client.send_on_held(b'POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n' + bytes(1000), b'more')


def unread(client):
    client.send_on_held(b'GET /download?mb=16 HTTP/1.1\r\nHost: x\r\n\r\n', b'GET /hello HTTP/1.1\r\nHost: x\r\n\r\n' * 50)


def extensions(client):
    client.send_on_held(b'POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n', b'1;' + b'x' * 1500 + b'\r\na\r\n')


def management(client):
    content = struct.pack('BB', 14, 0) + b'FCGI_MAX_CONNS'
    records = (record(9, content, 0) + record(200, content, 0)) * 50
    client.send_on_held(records, records)


def fastcgi_slow_head(client):
    client.send_on_held(record(1, struct.pack('>HB5x', 1, 1), 1) + record(4, b'', 1)[:4], b'\0')


def fastcgi_half_body(client):
    parameters = b''.join(struct.pack('BB', len(n), len(v)) + n + v for n, v in ((b'REQUEST_METHOD', b'POST'), (b'REQUEST_URI', b'/upload'), (b'CONTENT_LENGTH', b'100000')))
    begin = record(1, struct.pack('>HB5x', 1, 1), 1) + record(4, parameters, 1) + record(4, b'', 1) + record(5, bytes(500), 1)
    client.send_on_held(begin, record(5, b'more', 1))


ACTS = {
    'http': (connects, garbage, slow_head, half_body, unread, extensions),
    'fcgi': (connects, garbage, fastcgi_slow_head, fastcgi_half_body, management),
}


def main(address, protocol, clients, rate, seconds):
    acts = ACTS[protocol]
    all_clients = [Client(address, acts[i % len(acts)], i) for i in range(clients)]
    start = time.monotonic()
    done = 0
    while (now := time.monotonic()) < start + seconds:
        if done > (now - start) * rate:
            time.sleep(0.002)
            continue
        all_clients[done % clients].step()
        done += 1
    print(json.dumps({'acts': done / seconds, 'connections': sum(c.connections for c in all_clients), 'refused': sum(c.refused for c in all_clients)}))


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
