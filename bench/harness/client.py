"""One request at a time, over HTTP or FastCGI: to see that a server is up and answers what it should, to time transfers, to hold connections."""
import http.client
import socket
import struct
import time

BEGIN_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT = 1, 3, 4, 5, 6


class WrongAnswer(Exception):
    pass


def connect(address, timeout=30):
    if address.startswith('unix:'):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        connection.connect(address[5:])
        return connection
    host, port = address.rsplit(':', 1)
    connection = socket.create_connection((host, int(port)), timeout=timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def get(protocol, address, path):
    """The body of a 200, as bytes."""
    with connect(address) as connection:
        return get_on(connection, protocol, path)


def get_on(connection, protocol, path):
    """The same on a connection that stays open."""
    if protocol == 'fcgi':
        return fastcgi_get(connection, path)
    connection.sendall(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.encode())
    response = http.client.HTTPResponse(connection)
    response.begin()
    body = response.read()
    if response.status != 200:
        raise WrongAnswer(f'{path}: {response.status} {body[:80]!r}')
    return body


def record(kind, content=b''):
    return struct.pack('>BBHHBB', 1, kind, 1, len(content), 0, 0) + content


def pair(name, value):
    return bytes((len(name), len(value))) + name.encode() + value.encode()


def fastcgi_request(path):
    parameters = (pair('REQUEST_METHOD', 'GET') + pair('REQUEST_URI', path) + pair('SERVER_PROTOCOL', 'HTTP/1.1')
                  + pair('REMOTE_ADDR', '127.0.0.1') + pair('HTTP_HOST', '127.0.0.1'))
    return record(BEGIN_REQUEST, struct.pack('>HB5x', 1, 1)) + record(PARAMS, parameters) + record(PARAMS) + record(STDIN)


def fastcgi_get(connection, path):
    connection.sendall(fastcgi_request(path))
    with connection.makefile('rb') as stream:
        answer, kind = b'', None
        while kind != END_REQUEST:
            header = stream.read(8)
            if len(header) < 8:
                raise WrongAnswer(f'{path}: the connection ended within the answer')
            kind, length, padding = header[1], header[4] << 8 | header[5], header[6]
            content = stream.read(length + padding)[:length]
            if kind == STDOUT:
                answer += content
    head, _, body = answer.partition(b'\r\n\r\n')
    if not head.startswith(b'Status: 200'):
        raise WrongAnswer(f'{path}: {head[:80]!r}')
    return body


def wait_until_up(process, protocol, address, path, expected=b'Hello', seconds=20):
    """None once the server answers as it should, else a sentence."""
    end, reason = time.time() + seconds, 'no answer'
    while time.time() < end:
        try:
            body = get(protocol, address, path)
            return None if expected in body else f'wrong body {body[:60]!r}'
        except WrongAnswer as answer:
            return str(answer)
        except OSError as error:
            reason = str(error)
        if not process.alive():
            return process.last_words()
        time.sleep(0.02)
    return reason
