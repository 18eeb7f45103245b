"""As many requests as possible: wrk on all connections at once, the servers taking turns, round after round."""
from .. import contestants as c
from .. import load
from ..report import Report, medians, spread

WARM_UP_SECONDS = 3
COLUMNS = [
    ('rate', 'req/s', ',.0f'), ('app', 'app us/req', '.2f'), ('nginx', 'nginx us/req', '.2f'), ('p99', 'p99 ms', '.2f'),
    ('errors', 'errors', 'd'), ('noise', 'noise %', '.0f'), ('over_floor', 'CPU/floor', '.2f'), ('over_kestrel', 'CPU/Kestrel', '.2f'),
]


def fastcgi(session):
    """Behind one nginx worker with keep-alive to the application: FastCGI and HTTP, Unix sockets and TCP."""
    report = measure(session, Report('fastcgi', 'behind one nginx worker, keep-alive to the application', COLUMNS),
                     behind_nginx(), front=True)
    floor, plain, mapget, kestrel, _, tuned = names(behind_nginx())[:6]
    report.ratio_at_most('CPU', 'app', mapget, 1.3, floor)
    report.ratio_at_most('CPU', 'app', mapget, 0.25, kestrel)
    report.ratio_at_most('CPU', 'app', mapget, 0.45, tuned)
    report.ratio_at_least('req/s', 'rate', mapget, 1.8, kestrel)
    report.ratio_at_most('CPU', 'app', plain, 1.15, floor)
    return report


def fastcgi_nokeep(session):
    """The same without keep-alive to the application: nginx's default, a connection for each request."""
    report = measure(session, Report('fastcgi-nokeep', 'behind one nginx worker, one connection to the application per request', COLUMNS),
                     behind_nginx(), front=True, keep_alive=False)
    floor, _, mapget, kestrel_tcp, kestrel_unix = names(behind_nginx())[:5]
    report.ratio_at_most('CPU', 'app', mapget, 1.3, floor)
    report.ratio_at_least('req/s', 'rate', mapget, 2, kestrel_unix)
    report.ratio_at_least('req/s', 'rate', mapget, 4, kestrel_tcp)
    return report


def http(session):
    """HTTP/1.1 without a web server in front."""
    report = measure(session, Report('http', 'direct, keep-alive', COLUMNS), direct())
    floor, _, mapget, kestrel = names(direct())[:4]
    report.ratio_at_most('CPU', 'app', mapget, 0.5, kestrel)
    report.ratio_at_most('CPU', 'app', mapget, 1.2, floor)
    return report


def pipelined(session):
    """HTTP/1.1 with sixteen requests in flight on each connection."""
    report = measure(session, Report('pipelined', 'direct, 16 requests deep', COLUMNS), direct(), script='pipelined.lua')
    floor, plain, mapget, kestrel = names(direct())[:4]
    report.ratio_at_most('CPU', 'app', mapget, 0.6, kestrel)
    report.ratio_at_most('CPU', 'app', plain, 1.2, floor)
    return report


def shortlived(session):
    """HTTP/1.1 with one connection per request."""
    without_floor = direct()[1:]   # the floor ignores "Connection: close"
    return measure(session, Report('shortlived', 'direct, one connection per request', COLUMNS), without_floor, script='shortlived.lua')


def behind_nginx():
    minimal = c.millrace('fcgi', 'unix', parameters='minimal')
    minimal.name = 'Millrace MapGet, FastCGI/Unix, small parameter set'
    floor_minimal = c.floor('fcgi', 'unix')
    floor_minimal.parameters, floor_minimal.name = 'minimal', 'C floor, FastCGI/Unix, small parameter set'
    return [c.floor('fcgi', 'unix'), c.plain('fcgi', 'unix'), c.millrace('fcgi', 'unix'), c.kestrel('tcp'), c.kestrel('unix'), c.tuned_kestrel('tcp'),
            c.millrace('http', 'unix'), floor_minimal, minimal, c.floor('fcgi', 'tcp'), c.millrace('fcgi', 'tcp')]


def direct():
    return [c.floor('http', 'tcp'), c.plain('http', 'tcp'), c.millrace('http', 'tcp'), c.kestrel('tcp'), c.tuned_kestrel('tcp'), *c.node()]


def names(recipes):
    return [recipe.name for recipe in recipes]


def measure(session, report, recipes, front=False, keep_alive=True, script=None):
    with session.running(*session.chosen(recipes)) as servers:
        if not front:
            run_rounds(session, report, servers, [server.address for server in servers], None, script)
        else:
            with session.front(servers, keep_alive) as (nginx, addresses):
                run_rounds(session, report, servers, addresses, nginx, script)
    return report


def run_rounds(session, report, servers, addresses, nginx, script):
    competing = [(server, address) for server, address in zip(servers, addresses) if not server.failure]
    samples = {server.name: [] for server, _ in competing}
    with session.quiet():
        for server, address in competing:
            load.wrk(address, server.contestant.path, WARM_UP_SECONDS, session.connections, script)
    for _ in range(session.rounds):
        with session.quiet():
            for server, address in competing:
                samples[server.name].append(sample(session, server, address, nginx, script))
    for server in servers:
        if not server.failure and not server.process.alive():
            server.failure = f'ended under load: {server.process.last_words()}'
        if server.failure:
            report.add(server.name, failed=server.failure)
        else:
            report.add(server.name, **medians(samples[server.name]), noise=spread(samples[server.name], 'app'))
    add_ratios(report)
    report.notes.append(f'medians of {session.rounds} x {session.seconds} s, {session.connections} connections; '
                        f'noise: half the spread of app us/req; other processes used at most {session.worst_disturbance:.0f} % of the machine')


def sample(session, server, address, nginx, script):
    def once():
        app_before, nginx_before = server.process.cpu_seconds(), nginx.cpu_seconds() if nginx else 0
        result = load.wrk(address, server.contestant.path, session.seconds, session.connections, script)
        per_request = 1e6 / max(result['requests'], 1)
        result['app'] = (server.process.cpu_seconds() - app_before) * per_request
        if nginx:
            result['nginx'] = (nginx.cpu_seconds() - nginx_before) * per_request
        return result
    return session.undisturbed(once, server.process.pid, *([nginx.pid] if nginx else []))


def add_ratios(report):
    for key, start in (('over_floor', 'C floor'), ('over_kestrel', 'Kestrel MapGet')):
        reference = next((row for row in report.rows if row['name'].startswith(start) and 'app' in row), None)
        for row in report.rows:
            if reference and 'app' in row and reference['app']:
                row[key] = row['app'] / reference['app']
