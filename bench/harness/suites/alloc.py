"""Managed bytes allocated per request in the steady state, as the garbage collector of the server itself counts them."""
import subprocess

from .. import build, client, load
from .. import contestants as c
from ..report import Report

RATE, SECONDS, CONNECTIONS = 20_000, 4, 16
COLUMNS = [('bytes', 'bytes/request', ',.1f'), ('requests', 'requests', ',d'), ('errors', 'errors', 'd')]
HOSTING = 'hosting and MapGet alone, no server'


def alloc(session):
    """Bytes allocated per request, against what hosting allocates by itself."""
    report = Report('alloc', f'bytes allocated per request at up to {RATE:,}/s', COLUMNS)
    recipes = [c.plain('fcgi', 'unix'), c.millrace('fcgi', 'unix'), c.plain('http', 'tcp'), c.millrace('http', 'tcp'), c.kestrel('tcp')]
    hosting = subprocess.run(['dotnet', build.output('MinimalApp', 'MinimalApp.dll'), 'hosting'], capture_output=True, text=True)
    report.add(HOSTING, **({'failed': hosting.stderr[:120]} if hosting.returncode else {'bytes': float(hosting.stdout.split()[-1]), 'errors': 0}))
    for recipe in session.chosen(recipes):
        with session.quiet(), session.running(recipe) as (server,):
            if server.failure:
                report.add(server.name, failed=server.failure)
                continue
            report.add(server.name, **allocated(server))
    for name in (recipes[0].name, recipes[2].name):
        figure = report.figure(name, 'bytes')
        report.at_most(f'{name}: bytes per request, rounded', None if figure is None else round(figure), 0)
    alone = report.figure(HOSTING, 'bytes')
    for name in (recipes[1].name, recipes[3].name):
        figure = report.figure(name, 'bytes')
        report.at_most(f'{name}: bytes per request above {HOSTING}', None if None in (figure, alone) else round(figure - alone), 1_536)
    return report


def allocated(server):
    for _ in range(2):
        load.pace(server.protocol, server.address, '/hello', RATE, SECONDS, CONNECTIONS)
    before = total(server)
    result = load.pace(server.protocol, server.address, '/hello', RATE, SECONDS, CONNECTIONS)
    return {'bytes': (total(server) - before) / result['done'], 'requests': result['done'], 'errors': result['errors']}


def total(server):
    return int(client.get(server.protocol, server.address, '/alloc'))
