"""Handlers that wait, sleep or compute. Each load runs on a fresh process: in its first seconds, and again when its threads have grown."""
import os

from .. import contestants as c
from .. import load
from ..report import Report

CONNECTIONS = 64
FIRST_SECONDS, GROW_SECONDS, LATER_SECONDS = 3, 17, 4
COLUMNS = [
    ('ideal', 'ideal req/s', ',.0f'), ('first', 'first 3 s', ',.0f'), ('first_p99', 'p99 ms', '.1f'), ('later', 'after 20 s', ',.0f'),
    ('later_p99', 'p99 ms', '.1f'), ('errors', 'errors', 'd'),
]


def ideal(milliseconds):
    """Requests per second if waiting were all that a request does."""
    return CONNECTIONS / milliseconds * 1000


MIXES = {
    '5% sleep 50 ms': ('/mix?every=20&ms=50', ideal(2.5)),
    'all sleep 10 ms': ('/sleep?ms=10', ideal(10)),
    '10% sleep 5 ms': ('/mix?every=10&ms=5', ideal(0.5)),
    'await Task.Delay(5)': ('/delay?ms=5', ideal(5)),
    '300 us of computing': ('/spin?us=300', os.cpu_count() / 300e-6),
}


def blocking(session):
    """HTTP/1.1, direct: 5 % sleep 50 ms; all sleep 10 ms; 10 % sleep 5 ms; await Task.Delay(5); 300 us of computing."""
    return measure(session, 'blocking', 'direct', c.millrace('http', 'tcp'), c.kestrel('tcp'), front=False)


def blocking_fastcgi(session):
    """The same mixes over FastCGI behind nginx, against Kestrel over HTTP behind the same nginx."""
    return measure(session, 'blocking-fastcgi', 'behind one nginx worker', c.millrace('fcgi', 'unix'), c.kestrel('tcp'), front=True)


def measure(session, suite, how, mine, kestrel, front):
    report = Report(suite, f'{how}, {CONNECTIONS} connections, default settings, /hello warmed up', COLUMNS)
    for mix, (path, limit) in MIXES.items():
        for recipe in session.chosen([mine, kestrel]):
            with session.quiet(), session.running(recipe) as servers:
                name = row_name(mix, recipe)
                if servers[0].failure:
                    report.add(name, failed=servers[0].failure)
                elif front:
                    with session.front(servers) as (_, (address,)):
                        report.add(name, ideal=limit, **two_phases(address, path))
                else:
                    report.add(name, ideal=limit, **two_phases(servers[0].address, path))
    add_targets(report, mine, kestrel, front)
    return report


def two_phases(address, path):
    load.wrk(address, '/hello', 2, CONNECTIONS)
    first = load.wrk(address, path, FIRST_SECONDS, CONNECTIONS)
    load.wrk(address, path, GROW_SECONDS, CONNECTIONS)
    later = load.wrk(address, path, LATER_SECONDS, CONNECTIONS)
    return {'first': first['rate'], 'first_p99': first['p99'], 'later': later['rate'], 'later_p99': later['p99'],
            'errors': first['errors'] + later['errors']}


def add_targets(report, mine, kestrel, front):
    mix, all_sleep, short = (row_name(name, mine) for name in list(MIXES)[:3])
    if not front:   # behind nginx the share of the processors that nginx takes is missing
        report.at_least(f'{mix}: req/s in its first 3 s', report.figure(mix, 'first'), 0.8 * MIXES['5% sleep 50 ms'][1])
    report.ratio_at_least('req/s in the first 3 s', 'first', mix, 6, row_name('5% sleep 50 ms', kestrel))
    report.ratio_at_least('req/s after 20 s', 'later', mix, 1.7, row_name('5% sleep 50 ms', kestrel))
    report.at_least(f'{all_sleep}: req/s', report.figure(all_sleep, 'later'), 0.9 * MIXES['all sleep 10 ms'][1])
    report.ratio_at_least('req/s after 20 s', 'later', short, 4, row_name('10% sleep 5 ms', kestrel))


def row_name(mix, recipe):
    return f'{mix}: {recipe.name}'
