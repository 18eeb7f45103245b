"""What 200 hostile clients do to the others: requests per second of well-behaved connections before the flood and in it."""
import subprocess
import sys
import time

from .. import build, client, load
from .. import contestants as c
from ..report import Report, medians

CLIENTS, ACTS_PER_SECOND = 200, 2_000
CLOSED_LOOP, CONNECTIONS = 0, 32
COLUMNS = [
    ('quiet', 'req/s alone', ',.0f'), ('flooded', 'req/s in the flood', ',.0f'), ('kept', 'kept', '.2f'), ('p99', 'p99 ms', '.1f'),
    ('acts', 'hostile acts/s', ',.0f'), ('errors', 'lost', 'd'),
]


def flood(session):
    """/hello as fast as it goes on 32 connections, alone and beside 200 hostile clients."""
    report = Report('flood', f'/hello on {CONNECTIONS} connections, then beside {CLIENTS} hostile clients that do up to {ACTS_PER_SECOND:,} '
                             'things a second together', COLUMNS)
    recipes = [c.millrace('fcgi', 'unix'), c.millrace('http', 'tcp'), c.kestrel('tcp')]
    for recipe in session.chosen(recipes):
        with session.running(recipe) as (server,):
            if server.failure:
                report.add(server.name, failed=server.failure)
                continue
            with session.quiet():
                load.pace(server.protocol, server.address, '/hello', 20_000, 2, CONNECTIONS)
                report.add(server.name, **medians([beside_flood(server, session.seconds) for _ in range(session.rounds)]))
    for recipe in recipes[:2]:
        report.at_least(f'{recipe.name}: share of its throughput that is kept', report.figure(recipe.name, 'kept'), 0.5)
        report.at_most(f'{recipe.name}: requests lost', report.figure(recipe.name, 'errors'), 0)
    return report


def beside_flood(server, seconds):
    quiet = load.pace(server.protocol, server.address, '/hello', CLOSED_LOOP, seconds, CONNECTIONS)
    command = [sys.executable, '-m', 'harness.flood', server.address, server.protocol, str(CLIENTS), str(ACTS_PER_SECOND), str(seconds + 2)]
    hostile = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=build.BENCH)
    time.sleep(1)
    flooded = load.pace(server.protocol, server.address, '/hello', CLOSED_LOOP, seconds, CONNECTIONS)
    output, _ = hostile.communicate()
    client.get(server.protocol, server.address, '/hello')
    others = load.parse_pace(output)
    return {'quiet': quiet['done'] / seconds, 'flooded': flooded['done'] / seconds, 'kept': flooded['done'] / max(1, quiet['done']),
            'p99': flooded['p99'], 'acts': others['acts'], 'errors': quiet['errors'] + flooded['errors']}
