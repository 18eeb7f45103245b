"""CPU use under a fixed rate of requests that is well below what any of the servers can do."""
from .. import contestants as c
from .. import load
from ..report import Report, medians

RATES = (1_000, 10_000)
CONNECTIONS = 32
COLUMNS = [('p50', 'p50 ms', '.2f'), ('p99', 'p99 ms', '.2f'), ('cpu', 'CPU % of a core', '.1f'), ('errors', 'errors', 'd')]


def rates(session):
    """HTTP/1.1 at 1,000 and 10,000 requests per second: CPU of the server, latency."""
    report = Report('rates', f'direct, fixed rate, {CONNECTIONS} connections', COLUMNS)
    recipes = [c.floor('http', 'tcp'), c.plain('http', 'tcp'), c.millrace('http', 'tcp'), c.kestrel('tcp'), c.tuned_kestrel('tcp'), *c.node()]
    with session.running(*session.chosen(recipes)) as servers:
        working = [server for server in servers if not server.failure]
        with session.quiet():
            for server in working:
                load.wrk(server.address, '/hello', 3, session.connections)
        for rate in RATES:
            samples = {server.name: [] for server in working}
            for _ in range(session.rounds):
                with session.quiet():
                    for server in working:
                        samples[server.name].append(session.undisturbed(lambda: at_rate(server, rate, session.seconds), server.process.pid))
            for server in servers:
                if server.failure:
                    report.add(row_name(server.name, rate), failed=server.failure)
                else:
                    report.add(row_name(server.name, rate), **medians(samples[server.name]))
    for rate in RATES:
        report.ratio_at_most('CPU', 'cpu', row_name(c.millrace('http', 'tcp').name, rate), 0.6, row_name(c.kestrel('tcp').name, rate))
    return report


def at_rate(server, rate, seconds):
    before = server.process.cpu_seconds()
    result = load.pace(server.protocol, server.address, '/hello', rate, seconds, CONNECTIONS)
    return {**result, 'cpu': (server.process.cpu_seconds() - before) / seconds * 100}


def row_name(name, rate):
    return f'{name}, {rate:,}/s'
