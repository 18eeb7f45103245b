"""Who loses the session in a flood, over sockets: AddSession, a store that lets the least recently used go, and Millrace.Sessions, with the same memory for sessions."""
import json
import os
import subprocess

from .. import build, client
from .. import contestants as c
from ..report import Report

PROJECT = 'Millrace.Bench.Sessions'
KINDS = {'stock': 'AddSession', 'lru': 'least recently used', 'millrace': 'Millrace.Sessions'}
REQUESTS = 200_000
# Of each attack: what the program calls it, and how many times as many sessions it begins.
ATTACKS = {
    'no cookie, one network': ('none-one', 1), 'no cookie': ('none', 1), 'no cookie, a million': ('none', 5), 'each once, one network': ('once-one', 1), 'each once': ('once', 1),
    'each five times, one network': ('many-one', 1), 'each five times': ('many', 1), 'old cookies': ('old', 1),
}
LOST_ESTABLISHED_PERCENT, LOST_NEW_PERCENT, BUDGET_MIB, OVER_BUDGET = 2, 40, 16, 1.1
COLUMNS = [
    ('established_lost', 'established lost %', '.1f'), ('new_lost', 'new lost %', '.1f'), ('memory_mib', 'managed MiB more', '.1f'), ('rss_mib', 'resident MiB', '.0f'),
    ('rate', 'strikes/s', ',.0f'),
]


def sessions(session):
    """1,000 visitors and 400 new ones, and 200,000 sessions that a flood begins: who is lost, and what it takes."""
    report = Report('sessions', f'{REQUESTS:,} sessions begun by a flood, {BUDGET_MIB} MiB for sessions, 1,000 visitors before it and 400 during it', COLUMNS)
    if session.builds:
        with session.quiet():
            publish()
    for attack, (name, times) in ATTACKS.items():
        for recipe in session.chosen([recipe_of(kind) for kind in KINDS]):
            with session.quiet(), session.running(recipe) as (server,):
                row = f'{recipe.name}, {attack}'
                if server.failure:
                    report.add(row, failed=server.failure)
                    continue
                figures = strike(name, server, times * REQUESTS)
                report.add(row, **figures, rate=figures['requests'] / figures['seconds'])
        add_targets(report, attack)
    return report


def add_targets(report, attack):
    row = f"{KINDS['millrace']}, {attack}"
    without = attack.startswith('no cookie')
    report.at_most(f'{row}: established lost', report.figure(row, 'established_lost'), 0 if without else LOST_ESTABLISHED_PERCENT, '%')
    report.at_most(f'{row}: new lost', report.figure(row, 'new_lost'), 0 if without else LOST_NEW_PERCENT, '%')
    report.at_most(f'{row}: managed memory', report.figure(row, 'memory_mib'), BUDGET_MIB * OVER_BUDGET, 'MiB')


def strike(attack, server, requests):
    command = program('flood', attack, server.address, str(server.process.pid), str(requests))
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise client.WrongAnswer(f'{" ".join(command)}: {result.stderr[-500:]}')
    return json.loads(result.stdout)


def recipe_of(kind):
    return c.Contestant(KINDS[kind], 'http', 'tcp', lambda address: program('serve', kind, c.url('http', address)))


def program(*arguments):
    return ['dotnet', build.output(PROJECT, f'{PROJECT}.dll'), *arguments]


def publish():
    build.run(['dotnet', 'publish', os.path.join(build.BENCH, PROJECT), '-c', 'Release', '-o', build.output(PROJECT), '-v', 'q', '--nologo'])
