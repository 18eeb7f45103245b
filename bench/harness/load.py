"""The load: wrk for as much as possible, pace (bench/native/pace.c) for a fixed rate."""
import json
import os
import re
import subprocess

from . import build

UNITS = {'us': 0.001, 'ms': 1.0, 's': 1000.0, 'm': 60000.0}


def wrk(address, path, seconds, connections, script=None, threads=1):
    """Requests per second, their number, p99 in milliseconds, and how many failed."""
    argv = ['wrk', f'-t{threads}', f'-c{connections}', f'-d{seconds}s', '--timeout', '20s', '--latency']
    if script:
        argv += ['-s', os.path.join(build.BENCH, 'scripts', script)]
    text = subprocess.run(argv + [f'http://{address}{path}'], capture_output=True, text=True).stdout
    number = re.search(r'(\d+) requests in', text)
    if not number:
        raise RuntimeError(f'wrk could not load http://{address}{path}: {text.strip()}')
    p99 = re.search(r'99%\s+([\d.]+)(us|ms|s|m)', text)
    wrong = re.search(r'Non-2xx or 3xx responses: (\d+)', text)
    failed = re.search(r'Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)', text)
    return {
        'requests': int(number.group(1)),
        'rate': float(re.search(r'Requests/sec:\s+([\d.]+)', text).group(1)),
        'p99': float(p99.group(1)) * UNITS[p99.group(2)] if p99 else 0.0,
        'errors': (int(wrong.group(1)) if wrong else 0) + (sum(map(int, failed.groups())) if failed else 0),
    }


def pace_command(protocol, address, path, rate, seconds, connections):
    return [build.output('pace'), protocol, address, path, str(rate), str(seconds), str(connections)]


def pace(protocol, address, path, rate, seconds, connections):
    result = subprocess.run(pace_command(protocol, address, path, rate, seconds, connections), capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f'pace could not load {address}: {result.stderr.strip()}')
    return parse_pace(result.stdout)


def turns(protocol, path, rounds, turn_milliseconds, depth, connections, servers):
    """Microseconds of CPU per request, round by round, for each of the servers: pairs of process id and address."""
    argv = [build.output('turns'), protocol, path, str(rounds), str(turn_milliseconds), str(depth), str(connections)]
    for pid, address in servers:
        argv += [str(pid), address]
    result = subprocess.run(argv, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f'turns could not load the servers: {result.stderr.strip()}')
    return json.loads(result.stdout)


def parse_pace(text):
    return json.loads(text)
