"""What a server costs while nothing happens: memory of open connections, CPU of waiting."""
import time

from .. import client, load, process
from .. import contestants as c
from ..report import Report

CONNECTIONS = 10_000
OTHER_DESCRIPTORS = 500
SETTLE_SECONDS = 4
WATCH_SECONDS = 10
COLUMNS = [
    ('connections', 'connections', ',d'), ('per_connection', 'resident B each', ',.0f'), ('heap', 'live heap B each', ',.0f'),
    ('before', 'PSS before MB', '.1f'), ('after', 'PSS after MB', '.1f'), ('cpu', 'idle CPU %', '.2f'),
]


def idle(session):
    """10,000 idle keep-alive connections: memory of each, and the CPU of the idle server."""
    report = Report('idle', f'each connection has answered one request and stays open; CPU over {WATCH_SECONDS} s afterwards', COLUMNS)
    recipes = [c.plain('fcgi', 'unix'), c.millrace('fcgi', 'unix'), c.millrace('http', 'tcp'), c.kestrel('tcp')]
    connections = min(CONNECTIONS, process.allow_many_descriptors() - OTHER_DESCRIPTORS)
    for recipe in session.chosen(recipes):
        with session.running(recipe) as (server,):
            if server.failure:
                report.add(server.name, failed=server.failure)
                continue
            with session.quiet():
                report.add(server.name, **hold_connections(server, connections))
    for recipe in recipes[1:3]:
        report.at_most(f'{recipe.name}: bytes of an idle connection', report.figure(recipe.name, 'per_connection'), 2048)
    for recipe in recipes[:3]:
        cpu = report.figure(recipe.name, 'cpu')
        report.at_most(f'{recipe.name}: CPU % of an idle server, to one decimal', None if cpu is None else round(cpu, 1), 0.0)
    return report


def hold_connections(server, number):
    warm_up(server)
    heap = live_heap(server)
    warm_up(server)
    time.sleep(SETTLE_SECONDS)
    before = process.memory_kilobytes(server.process.pid)
    connections = []
    try:
        for _ in range(number):
            connection = client.connect(server.address)
            client.get_on(connection, server.protocol, '/hello')
            connections.append(connection)
        time.sleep(SETTLE_SECONDS)
        after = process.memory_kilobytes(server.process.pid)
        cpu = server.process.cpu_seconds()
        time.sleep(WATCH_SECONDS)
        cpu = (server.process.cpu_seconds() - cpu) / WATCH_SECONDS * 100
        heap = live_heap(server) - heap
    finally:
        for connection in connections:
            connection.close()
    return {'connections': number, 'before': before / 1024, 'after': after / 1024, 'cpu': cpu,
            'per_connection': (after - before) * 1024 / number, 'heap': heap / number}


def warm_up(server):
    """Code compiled, pools filled."""
    load.pace(server.protocol, server.address, '/hello', 10_000, 3, 64)


def live_heap(server):
    """Managed bytes that are in use, after a full collection."""
    return int(client.get(server.protocol, server.address, '/heap'))
