"""What a call through a pool costs, in process and out of it, from 1 to 64 callers; and what a FastCGI program costs by the connector and by nginx, each with a thread for each processor."""
import glob
import os
import re
import shutil
import statistics
import subprocess

from .. import build, client, load, process
from .. import contestants as c
from ..report import Report

CALLERS = (1, 4, 16, 64)
WORKERS = 2
COLUMNS = ([(f'rate{n}', f'{n}: /s', ',.0f') for n in CALLERS] + [(f'cpu{n}', f'{n}: us', '.2f') for n in CALLERS])
IN_PROCESS = re.compile(r'^(.{36})\s+(\d+)\s+([\d,]+)\s+([\d.]+)\s+([\d.]+)\s+(\d+)$', re.M)
RAW, USUAL = 'raw call', 'usual way (SemaphoreSlim, threads)'
BOUND, FREE = 'pool, a thread each', 'pool, no thread of its own'
NGINX_ALONE, NGINX_FLOOR = 'nginx, itself', 'nginx, C floor'
APP_ALONE, APP_FLOOR = 'application, itself', 'connector, C floor'
PAIRS = (('nginx, php-fpm', 'connector, php-fpm'), ('nginx, php-cgi', 'connector, php-cgi'))


def pools(session):
    """A call through a pool, in process and out of it, from 1 to 64 callers; FastCGI by the connector and by nginx."""
    report = Report('pools', 'calls per second, and CPU of one call (of what passes it on), by callers', COLUMNS)
    if session.builds:
        with session.quiet():
            build.publish('PoolApp')
            build.run(['dotnet', 'publish', os.path.join(build.BENCH, 'Millrace.Bench.Workers'), '-c', 'Release', '-o', build.output('Millrace.Bench.Workers'), '-v', 'q', '--nologo'])
    in_process(session, report)
    out_of_process(session, report)
    for pool in (BOUND, FREE):
        report.at_most(f'{pool}: us per call over a raw one, 64 callers', overhead(report, pool), 2, 'us')
    added = [report.figure(one, 'cpu64') - report.figure(alone, 'cpu64') for one, alone in ((APP_FLOOR, APP_ALONE), (NGINX_FLOOR, NGINX_ALONE))]
    report.at_most('connector: CPU that FastCGI adds / that it adds to nginx, 64 callers', added[0] / added[1], 1.3, 'x')
    for nginx, connector in PAIRS:
        report.at_least(f'{connector}: calls per second / {nginx}, 64 callers', report.figure(connector, 'rate64') / report.figure(nginx, 'rate64'), 0.9, 'x')
    return report


def overhead(report, name):
    return 1e6 / report.figure(name, 'rate64') - 1e6 / report.figure(RAW, 'rate64')


# ---- in process

def in_process(session, report):
    argv = ['dotnet', build.output('Millrace.Bench.Workers', 'Millrace.Bench.Workers.dll'), str(2 * session.rounds + 1), '500', str(WORKERS)]
    with session.quiet():
        text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    rows = {}
    for name, callers, rate, _, cpu, _ in IN_PROCESS.findall(text):
        row = rows.setdefault(name.strip(), {})
        row[f'rate{callers}'] = float(rate.replace(',', ''))
        row[f'cpu{callers}'] = float(cpu)
    for name, row in rows.items():
        report.add(name, **row)


# ---- out of process

def out_of_process(session, report):
    site = os.path.join(session.folder, 'site')
    os.mkdir(site)
    with open(os.path.join(site, 'hello.php'), 'w') as script:
        script.write("<?php header('Content-Type: text/plain'); echo 'Hello, World!';")
    with session.running(c.floor('fcgi', 'unix')) as (floor,):
        started = []
        try:
            fpm, cgi = start_php(session, started)
            nginx = start_nginx(session, started, site, floor.address, fpm, cgi)
            app = start_app(session, started, site, floor.address, fpm, cgi)
            rows = [
                (NGINX_ALONE, *nginx, '/hello'), (APP_ALONE, *app, '/hello'),
                (NGINX_FLOOR, *nginx, '/floor/hello'), (APP_FLOOR, *app, '/floor/hello'),
                ('nginx, php-fpm', *nginx, '/fpm/hello.php'), ('connector, php-fpm', *app, '/fpm/hello.php'),
                ('nginx, php-cgi', *nginx, '/cgi/hello.php'), ('connector, php-cgi', *app, '/cgi/hello.php'),
                ('pool of php-cgi', *app, '/pool/hello.php'),
            ]
            measure(session, report, rows, [one.pid for one in started] + [floor.process.pid])
        finally:
            for one in started:
                one.stop()


def start_php(session, started):
    fpm, cgi = (os.path.join(session.folder, name) for name in ('fpm.sock', 'cgi.sock'))
    configuration = os.path.join(session.folder, 'fpm.conf')
    as_root = os.getuid() == 0
    with open(configuration, 'w') as file:
        file.write(f'[global]\nerror_log = {session.folder}/fpm.log\ndaemonize = no\n[www]\n{"user = root" if as_root else ""}\n{"group = root" if as_root else ""}\n'
                   f'listen = {fpm}\nlisten.backlog = 511\npm = static\npm.max_children = {WORKERS}\n')
    programs = sorted(glob.glob('/usr/sbin/php-fpm*'))
    if not programs or not shutil.which('php-cgi'):
        raise SystemExit('php-fpm and php-cgi not found. On Debian and Ubuntu: apt-get install php-fpm php-cgi')
    started.append(process.Process([programs[-1], '-n', '-F', *(['-R'] if as_root else []), '-y', configuration], os.path.join(session.folder, 'fpm.out')))
    started.append(process.Process(['php-cgi', '-n', '-b', cgi], os.path.join(session.folder, 'cgi.out'), {'PHP_FCGI_CHILDREN': str(WORKERS), 'PHP_FCGI_MAX_REQUESTS': '0'}))
    return f'unix:{fpm}', f'unix:{cgi}'


def start_nginx(session, started, site, floor, fpm, cgi):
    folder, port = os.path.join(session.folder, 'pools'), c.free_port()
    os.mkdir(folder)
    php = f'root {site}; include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME {site}/hello.php;'
    temporary = ' '.join(f'{kind}_temp_path {folder}/{kind};' for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
    with open(os.path.join(folder, 'nginx.conf'), 'w') as file:
        file.write(f'''worker_processes {len(os.sched_getaffinity(0))}; daemon off; {'user root;' if os.getuid() == 0 else ''} pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; {temporary} default_type text/plain;
upstream floor {{ server {floor}; keepalive 128; keepalive_requests 100000000; }}
server {{ listen 127.0.0.1:{port} backlog=4096;
location = /hello {{ return 200 'Hello, World!'; }}
location /floor/ {{ include /etc/nginx/fastcgi_params; fastcgi_keep_conn on; fastcgi_pass floor; }}
location /fpm/ {{ {php} fastcgi_pass {fpm}; }}
location /cgi/ {{ {php} fastcgi_pass {cgi}; }} }} }}
''')
    nginx = process.Process(['nginx', '-c', f'{folder}/nginx.conf', '-e', f'{folder}/error.log'], os.path.join(folder, 'nginx.log'))
    started.append(nginx)
    return f'127.0.0.1:{port}', nginx


def start_app(session, started, site, floor, fpm, cgi):
    address = f'127.0.0.1:{c.free_port()}'
    app = process.Process(['dotnet', build.output('PoolApp', 'PoolApp.dll'), f'http://{address}', site, floor, fpm, cgi, str(WORKERS)], os.path.join(session.folder, 'pool-app.log'))
    started.append(app)
    return address, app


def measure(session, report, rows, pids):
    for name, address, owner, path in rows:
        failure = client.wait_until_up(owner, 'http', address, path)
        if failure:
            raise SystemExit(f'{name}: {failure}')
    with session.quiet():
        for _, address, _, path in rows:
            load.wrk(address, path, max(2, session.seconds), session.connections)
    found = {}
    for turn in range(session.rounds):
        with session.quiet():
            for name, address, owner, path in rows if turn % 2 == 0 else reversed(rows):
                for callers in CALLERS:
                    result = session.undisturbed(lambda: sample(session, address, owner, path, callers), *pids)
                    found.setdefault(name, []).append((callers, result))
    for name, *_ in rows:
        row = {}
        for callers in CALLERS:
            samples = [result for its, result in found[name] if its == callers]
            row[f'rate{callers}'] = statistics.median(one['rate'] for one in samples)
            row[f'cpu{callers}'] = statistics.median(one['cpu'] for one in samples)
            row['errors'] = row.get('errors', 0) + sum(one['errors'] for one in samples)
        report.add(name, **row)
        if row['errors']:
            report.notes.append(f"{name}: {row['errors']} errors")
    report.notes.append(f'medians of {session.rounds} x {session.seconds} s in turns; {WORKERS} workers, or processes of PHP; other processes used at most {session.worst_disturbance:.0f} % of the machine')


def sample(session, address, owner, path, callers):
    """The processes of a pool are not counted to what passes on: nginx has its worker below it, an application has only itself."""
    family = process.children_of(owner.pid) if owner.argv[0] == 'nginx' else {owner.pid}
    before = sum(map(process.cpu_clock_seconds, family))
    result = load.wrk(address, path, session.seconds, callers)
    result['cpu'] = (sum(map(process.cpu_clock_seconds, family)) - before) * 1e6 / max(result['requests'], 1)
    return result
