"""What ill applications behind a shared address do to the one that is well: one crashes, one hangs, one leaks until it is replaced."""
import json
import os
import statistics
import subprocess
import time

from .. import build, client, load, process
from .. import contestants as c
from ..front import Front
from ..report import Report, medians

RATE, CONNECTIONS = 1_000, 8
# Of each: its endpoint, requests per second, connections. Those that hang keep theirs. The one that leaks has its limit in a minute, or, in another turn, in seconds.
ILL = {'crashing': ('/crash', 20, 8), 'hanging': ('/sleep?ms=100000000', 20, 64), 'leaking': ('/leak?mb=1', 10, 8)}
FAST = ILL | {'leaking': ('/leak?mb=4', 20, 8)}
SETTLE_SECONDS = 15
COLUMNS = [
    ('p50', 'p50 ms', '.2f'), ('p99', 'p99 ms', '.2f'), ('p999', 'p99.9 ms', '.2f'), ('max', 'max ms', '.1f'), ('errors', 'errors', 'd'),
]
ALONE, BESIDE, BESIDE_FAST = 'alone', 'beside the three', '... of which one leaks 80 MB a second'


def neighbours(session):
    """p99 of one application behind a shared address, alone and beside one that crashes, one that hangs and one that leaks."""
    report = Report('neighbours', f'/hello at {RATE:,}/s of the fourth application behind a shared FastCGI address and nginx; {", ".join(f"{name} at {its[1]}/s" for name, its in ILL.items())}', COLUMNS)
    if session.builds:
        with session.quiet():
            build.publish_command()
    daemon = front = None
    samples = {ALONE: [], BESIDE: [], BESIDE_FAST: []}
    try:
        daemon, address = start_daemon(session)
        front = Front(session.folder)
        at = f'127.0.0.1:{front.add(c.Contestant("shared", "fcgi", "unix", None), address)}'
        front.start()
        wait_until_well(daemon, at)
        load.pace('http', at, '/hello', RATE, 3, CONNECTIONS)
        for _ in range(session.rounds):
            with session.quiet():
                samples[ALONE].append(load.pace('http', at, '/hello', RATE, session.seconds, CONNECTIONS))
                for name, ill in ((BESIDE, ILL), (BESIDE_FAST, FAST)):
                    samples[name].append(beside(ill, at, session.seconds))
                    time.sleep(SETTLE_SECONDS)
        states = json.loads(subprocess.run(daemon_command('status', '--json', '--control', control_of(session)), capture_output=True, text=True).stdout)
        report.notes.append('; '.join(f"{app['name']}: {app['state']}, {app['restarts']} restarts, {app['recycles']} recycled" for app in states['apps']))
    finally:
        for one in (front, daemon):
            if one:
                one.stop()
    for name, its in samples.items():
        report.add(name, **medians(its))
    for name in (BESIDE, BESIDE_FAST):
        report.at_most(f'p99 {name} / alone', statistics.median(b['p99'] / a['p99'] for a, b in zip(samples[ALONE], samples[name])), 1.2, 'x')
        report.at_most(f'requests of the fourth that failed {name}', report.figure(name, 'errors'), 0)
    return report


def wait_until_well(daemon, address):
    """The router answers 503 until the application serves, and nginx 502 until there is a router."""
    end = time.time() + 60
    while client.wait_until_up(daemon, 'http', address, '/hello', seconds=1):
        if time.time() > end or not daemon.alive():
            raise SystemExit(f'the application that is well does not serve: {daemon.last_words()}')
        time.sleep(0.1)


def beside(ill, address, seconds):
    """The ill ones have their visitors from before the measurement until behind it."""
    visitors = [subprocess.Popen(load.pace_command('http', address, f'/{name}{path}', rate, seconds + SETTLE_SECONDS + 2, connections), stdout=subprocess.DEVNULL)
                for name, (path, rate, connections) in ill.items()]
    try:
        time.sleep(SETTLE_SECONDS)
        return load.pace('http', address, '/hello', RATE, seconds, CONNECTIONS)
    finally:
        for one in visitors:
            one.kill()
            one.wait()


def start_daemon(session):
    os.mkdir(os.path.dirname(control_of(session)), 0o700)
    shared = os.path.join(session.folder, 'shared.sock')
    apps = [{'name': name, 'target': build.output('MinimalApp', 'MinimalApp.dll'), 'arguments': ['kestrel'], 'on': 'front', 'path': path, 'health': '/hello', 'snapshot': False,
             'limits': {'memory': '1g'}, 'recycle': {'memory': '600m'}} for name, path in [('well', '/'), *((ill, f'/{ill}') for ill in ILL)]]
    file = os.path.join(session.folder, 'millrace.json')
    with open(file, 'w') as text:
        json.dump({'control': control_of(session), 'shared': {'front': f'fastcgi://unix:{shared}'}, 'apps': apps}, text)
    return process.Process(daemon_command('serve', file), os.path.join(session.folder, 'daemon.log')), f'unix:{shared}'


def control_of(session):
    return os.path.join(session.folder, 'daemon', 'control.sock')


def daemon_command(*arguments):
    return ['dotnet', build.output('Millrace.Command', 'Millrace.Command.dll'), *arguments]
