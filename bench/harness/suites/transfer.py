"""Large bodies: 16 MB up, 64 MB down, one at a time. Seconds, CPU of the server, and how far its memory grows."""
import socket
import time

from .. import client, process
from .. import contestants as c
from ..report import Report, medians

MEGABYTE = 1024 * 1024
UPLOAD_MEGABYTES, DOWNLOAD_MEGABYTES = 16, 64
WARM_UP, REPETITIONS_PER_ROUND = 3, 5
GROWTH_LIMIT_MEGABYTES = 16
COLUMNS = [
    ('upload', 'upload s', '.3f'), ('upload_cpu', 'CPU ms', '.1f'), ('upload_growth', 'growth MB', '.1f'),
    ('download', 'download s', '.3f'), ('download_cpu', 'CPU ms', '.1f'), ('download_growth', 'growth MB', '.1f'), ('errors', 'errors', 'd'),
]
BODY = bytes(range(256)) * (UPLOAD_MEGABYTES * MEGABYTE // 256)


def transfer(session):
    """16 MB upload and 64 MB download, behind nginx and direct."""
    report = Report('transfer', f'{UPLOAD_MEGABYTES} MB up, {DOWNLOAD_MEGABYTES} MB down; growth: peak of resident memory over the level before', COLUMNS)
    recipes = [c.millrace('fcgi', 'unix'), c.millrace('http', 'tcp'), c.kestrel('tcp')]
    with session.running(*session.chosen(recipes)) as servers, session.front(servers) as (_, fronts):
        ways = [(server, address, 'behind nginx') for server, address in zip(servers, fronts)]
        ways += [(server, server.address, 'direct') for server in servers if server.protocol == 'http']
        samples = {row_name(server.name, how): [] for server, _, how in ways}
        for round_number in range(session.rounds + 1):
            with session.quiet():
                for server, address, how in ways:
                    if not server.failure:
                        repetitions = [both_ways(server, address) for _ in range(REPETITIONS_PER_ROUND if round_number else WARM_UP)]
                        if round_number:
                            samples[row_name(server.name, how)] += repetitions
        for server, _, how in ways:
            if server.failure:
                report.add(row_name(server.name, how), failed=server.failure)
            else:
                report.add(row_name(server.name, how), **medians(samples[row_name(server.name, how)]))
    add_targets(report, [recipe.name for recipe in recipes])
    return report


def add_targets(report, names):
    fastcgi, http, kestrel = names
    for mine, how in ((fastcgi, 'behind nginx'), (http, 'direct')):
        for key in ('upload', 'download'):
            report.ratio_at_most(f'{key} seconds', key, row_name(mine, how), 1.05, row_name(kestrel, how))
            report.at_most(f'{row_name(mine, how)}: memory growth in {key}, MB', report.figure(row_name(mine, how), key + '_growth'), GROWTH_LIMIT_MEGABYTES)


def row_name(name, how):
    return f'{name}, {how}'


def both_ways(server, address):
    result = {'errors': 0}
    for key, move in (('upload', upload), ('download', download)):
        pid = server.process.pid
        process.reset_peak(pid)
        level, cpu, start = process.read_field(f'/proc/{pid}/status', 'VmRSS'), server.process.cpu_seconds(), time.perf_counter()
        result['errors'] += 0 if move(address) else 1
        result[key] = time.perf_counter() - start
        result[key + '_cpu'] = (server.process.cpu_seconds() - cpu) * 1000
        result[key + '_growth'] = (process.peak_kilobytes(pid) - level) / 1024
    return result


def upload(address):
    """True if the server counted every byte."""
    with client.connect(address) as connection:
        connection.sendall(f'POST /upload HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(BODY)}\r\n\r\n'.encode())
        connection.sendall(BODY)
        answer = b''
        while part := connection.recv(65536):
            answer += part
    return answer.startswith(b'HTTP/1.1 200') and f'Hello, {len(BODY)}'.encode() in answer


def download(address):
    """True if every byte came."""
    expected = DOWNLOAD_MEGABYTES * MEGABYTE
    with client.connect(address) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        connection.sendall(f'GET /download?mb={DOWNLOAD_MEGABYTES} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n'.encode())
        buffer = bytearray(1 << 20)
        head = connection.recv(16 * 1024)
        at = head.find(b'\r\n\r\n')
        length = len(head) - at - 4
        while n := connection.recv_into(buffer):
            length += n
    return head.startswith(b'HTTP/1.1 200') and at > 0 and length == expected
