"""What passing a request on costs: the router of `millrace serve` beside an nginx that does the same, both in front of one application over FastCGI."""
import json
import os
import statistics

from .. import build, client, load, process
from .. import contestants as c
from ..front import Front
from ..report import Report, medians, spread

WARM_UP_SECONDS = 5
TURN_MILLISECONDS, TURN_CONNECTIONS, TURN_FACTOR = 30, 8, 10
COLUMNS = [
    ('rate', 'req/s', ',.0f'), ('passing', 'passing us/req', '.2f'), ('app', 'app us/req', '.2f'), ('nginx', 'front us/req', '.2f'), ('p99', 'p99 ms', '.2f'),
    ('errors', 'errors', 'd'), ('noise', 'noise %', '.0f'), ('over_nginx', 'CPU/nginx', '.2f'),
]
# As RouterSettings has it.
RUNTIME = {'DOTNET_TieredPGO': '1', 'DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS': '1'}
BEHIND_NGINX, DIRECT = 'behind nginx', 'direct'


class Passing:
    """One that passes requests on, and how it is reached. `owned` is what is measured of it."""

    def __init__(self, name, group, address, owned, front_protocol=None):
        self.name = name
        self.group = group
        self.address = address
        self.process = owned
        self.front_protocol = front_protocol


def router(session):
    """CPU per request of what passes requests on: the router beside a second nginx."""
    report = Report('router', f'small GETs passed on to an application, {"turns of 30 ms" if session.short_turns else "keep-alive everywhere"}', COLUMNS)
    if session.builds:
        with session.quiet():
            build.publish_command()
    with session.running(c.floor('fcgi', 'unix')) as (app,):
        started, passing = [], []
        try:
            second, its = second_nginx(session, app)
            started.append(second)
            ours, router_addresses = start_router(session, app)
            started.append(ours)
            passing = candidates(its, second, router_addresses, ours)
            if session.short_turns:
                measure_short(session, report, passing)
            else:
                measure(session, report, passing, app)
        finally:
            for one in started:
                one.stop()
    add_ratios(report, passing)
    return report


def candidates(its, second, router_addresses, ours):
    fastcgi, http, tcp = router_addresses
    return [
        Passing('nginx, HTTP/Unix, behind nginx', BEHIND_NGINX, its[0], second, 'http'),
        Passing('Millrace router, FastCGI/Unix, behind nginx', BEHIND_NGINX, fastcgi, ours, 'fcgi'),
        Passing('Millrace router, HTTP/Unix, behind nginx', BEHIND_NGINX, http, ours, 'http'),
        Passing('nginx, HTTP/TCP', DIRECT, its[1], second),
        Passing('Millrace router, HTTP/TCP', DIRECT, tcp, ours),
    ]


def second_nginx(session, app):
    """An nginx that passes on to the application by fastcgi_pass, at a Unix socket and a port."""
    folder = os.path.join(session.folder, 'second')
    os.mkdir(folder)
    front = Front(folder)
    path = os.path.join(folder, 'front.sock')
    port = front.add(app.contestant, app.address, listen=f'unix:{path}')
    return front.start(), (f'unix:{path}', f'127.0.0.1:{port}')


def start_router(session, app):
    fastcgi, http = (os.path.join(session.folder, name) for name in ('router-fcgi.sock', 'router-http.sock'))
    tcp = f'127.0.0.1:{c.free_port()}'
    routes = [{'App': 'app', 'Socket': app.address.removeprefix('unix:'), 'UpgradeSocket': None, 'Host': None, 'Path': ''}]
    environment = {
        'MILLRACE_ROUTES_0': json.dumps(routes), 'MILLRACE_ROUTES_FOLDER': '/', 'MILLRACE_RUN_URLS': f'fastcgi://unix:{fastcgi};http://unix:{http};http://{tcp}',
        'DOTNET_STARTUP_HOOKS': build.output('Millrace.Command', 'Millrace.StartupHook.dll'), **RUNTIME,
    }
    server = process.Process(['dotnet', build.output('Millrace.Command', 'Millrace.Command.dll'), 'route'], os.path.join(session.folder, 'router.log'), environment)
    failure = client.wait_until_up(server, 'fcgi', f'unix:{fastcgi}', '/hello')
    if failure:
        raise SystemExit(f'the router: {failure}')
    return server, (f'unix:{fastcgi}', f'unix:{http}', tcp)


def measure(session, report, passing, app):
    front = Front(session.folder)
    try:
        addresses = {one: one.address for one in passing if one.group == DIRECT}
        for one in passing:
            if one.group == BEHIND_NGINX:
                addresses[one] = f'127.0.0.1:{front.add(c.Contestant(one.name, one.front_protocol, "unix", None), one.address)}'
        nginx = front.start()
        for one, address in addresses.items():
            failure = client.wait_until_up(nginx, 'http', address, '/hello')
            if failure:
                raise SystemExit(f'{one.name}: {failure}')
        with session.quiet():
            for one in passing:
                load.wrk(addresses[one], '/hello', WARM_UP_SECONDS, session.connections)
        samples = {one: [] for one in passing}
        for turn in range(session.rounds):
            with session.quiet():
                for one in sorted(passing, key=passing.index, reverse=turn % 2 == 1):
                    samples[one].append(sample(session, one, addresses[one], app, nginx))
        for one in passing:
            report.add(one.name, **medians(samples[one]), noise=spread(samples[one], 'passing'), rounds=[its['passing'] for its in samples[one]])
    finally:
        front.stop()
    report.notes.append(f'medians of {session.rounds} x {session.seconds} s, {session.connections} connections; the application is the C floor; '
                        f'other processes used at most {session.worst_disturbance:.0f} % of the machine')


def sample(session, one, address, app, nginx):
    def once():
        before = [its.cpu_seconds() for its in (one.process, app.process, nginx)]
        result = load.wrk(address, '/hello', session.seconds, session.connections)
        after = [its.cpu_seconds() for its in (one.process, app.process, nginx)]
        for key, was, now in zip(('passing', 'app', 'nginx'), before, after):
            result[key] = (now - was) * 1e6 / max(result['requests'], 1)
        return result
    return session.undisturbed(once, one.process.pid, app.process.pid, nginx.pid)


def measure_short(session, report, passing):
    """Neighbouring turns of 30 ms: the passing process has one processor, load and application the other."""
    direct = [one for one in passing if one.group == DIRECT]
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise SystemExit('--short-turns needs two processors.')
    for one in direct:
        for pid in process.children_of(one.process.pid):
            pin(pid, usable[0])
    os.sched_setaffinity(0, {usable[1]})
    try:
        with session.quiet():
            figures = load.turns('http', '/hello', TURN_FACTOR * session.rounds, TURN_MILLISECONDS, 1, TURN_CONNECTIONS,
                                 [(worker_of(one.process), one.address) for one in direct])
    finally:
        os.sched_setaffinity(0, set(usable))
    for one, rounds in zip(direct, figures):
        report.add(one.name, passing=statistics.median(rounds), rounds=rounds)
    report.notes.append(f'{TURN_FACTOR * session.rounds} turns each, {TURN_CONNECTIONS} connections, one processor for what passes on')


def pin(pid, processor):
    for task in os.listdir(f'/proc/{pid}/task'):
        os.sched_setaffinity(int(task), {processor})


def worker_of(server):
    """nginx's only worker, and any other server itself."""
    below = process.children_of(server.pid) - {server.pid}
    return below.pop() if below else server.pid


def add_ratios(report, passing):
    groups = {one.name: one.group for one in passing}
    for group in (BEHIND_NGINX, DIRECT):
        rows = [row for row in report.rows if groups[row['name']] == group]
        for row in rows:
            row['over_nginx'] = statistics.median(mine / its for mine, its in zip(row['rounds'], rows[0]['rounds']))
            if row is not rows[0]:
                report.at_most(f"{row['name']}: CPU / {rows[0]['name']}", row['over_nginx'], 1.3, 'x')
