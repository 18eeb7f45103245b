"""What blocking handlers do to the others: /hello at a fixed rate on its own connections while 32 requests block all the time."""
import subprocess

from .. import contestants as c
from .. import load
from ..report import Report, medians

BLOCKING_CONNECTIONS, BLOCKING_MILLISECONDS = 32, 100
RATE, CONNECTIONS = 1_000, 8
COLUMNS = [
    ('p50', 'p50 ms', '.2f'), ('p99', 'p99 ms', '.2f'), ('p999', 'p99.9 ms', '.2f'), ('max', 'max ms', '.1f'),
    ('blocked', 'blocked req/s', ',.0f'), ('errors', 'errors', 'd'),
]


def isolation(session):
    """p99 of /hello on its own connections while 32 other requests block 100 ms each time."""
    report = Report('isolation', f'/hello at {RATE:,}/s on {CONNECTIONS} connections of its own, {BLOCKING_CONNECTIONS} others sleep '
                                 f'{BLOCKING_MILLISECONDS} ms each time, default settings', COLUMNS)
    fastcgi, http, kestrel = recipes = [c.millrace('fcgi', 'unix'), c.millrace('http', 'tcp'), c.kestrel('tcp')]
    for recipe in session.chosen(recipes):
        with session.running(recipe) as servers:
            # Two upstreams to the same server: the connections that block and those of /hello are kept apart behind nginx too.
            with session.front([servers[0], servers[0]]) as (_, fronts):
                for how, addresses in (('behind nginx', fronts), ('direct', [servers[0].address] * 2)):
                    name = f'{recipe.name}, {how}'
                    if servers[0].failure:
                        report.add(name, failed=servers[0].failure)
                        continue
                    protocol = 'http' if how == 'behind nginx' else recipe.protocol
                    samples = []
                    for _ in range(session.rounds):
                        with session.quiet():
                            samples.append(beside_blocking(protocol, *addresses, session.seconds))
                    report.add(name, **medians(samples))
    for name in (f'{fastcgi.name}, behind nginx', f'{fastcgi.name}, direct', f'{http.name}, direct'):
        report.at_most(f'{name}: p99 of /hello, ms', report.figure(name, 'p99'), 5)
    return report


def beside_blocking(protocol, address, blocking_address, seconds):
    load.pace(protocol, address, '/hello', RATE, 1, CONNECTIONS)
    limit = BLOCKING_CONNECTIONS / BLOCKING_MILLISECONDS * 1000
    blocked = subprocess.Popen(load.pace_command(protocol, blocking_address, f'/sleep?ms={BLOCKING_MILLISECONDS}', limit, seconds + 1, BLOCKING_CONNECTIONS),
                               stdout=subprocess.PIPE, text=True)
    result = load.pace(protocol, address, '/hello', RATE, seconds, CONNECTIONS)
    output, _ = blocked.communicate()
    others = load.parse_pace(output)
    return {**result, 'blocked': others['done'] / (seconds + 1), 'errors': result['errors']}
