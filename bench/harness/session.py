"""One call of bench/run: its options, its temporary folder, the servers it started, and the quiet it needs on a shared machine."""
import contextlib
import fcntl
import os
import resource
import shutil
import sys
import tempfile
import time

from . import client, contestants, process
from .front import Front

DISTURBED_PERCENT = 5
ATTEMPTS = 4


class Running:
    """A contestant that was started. `failure` is a sentence if it does not answer."""

    def __init__(self, contestant, address, server, failure):
        self.contestant = contestant
        self.address = address
        self.process = server
        self.failure = failure

    @property
    def name(self):
        return self.contestant.name

    @property
    def protocol(self):
        return self.contestant.protocol


class Session:
    def __init__(self, options):
        self.rounds = options.rounds
        self.seconds = options.seconds
        self.connections = options.connections
        self.only = [part.strip().lower() for part in options.only.split(',') if part.strip()]
        self.lock = options.lock
        self.short_turns = options.short_turns
        self.builds = not options.no_build
        self.folder = tempfile.mkdtemp(prefix='millrace-bench-')
        os.chmod(self.folder, 0o755)
        self.number = 0
        self.worst_disturbance = 0.0

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def chosen(self, candidates):
        """All of them, or those whose name contains one of the parts given with --only."""
        return [c for c in candidates if not self.only or any(part in c.name.lower() for part in self.only)]

    @contextlib.contextmanager
    def quiet(self):
        """Holds the lock given with --lock, so that nothing else that respects it runs on this machine meanwhile."""
        if not self.lock:
            yield
            return
        with open(self.lock, 'a') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def start(self, contestant):
        self.number += 1
        address = contestants.new_address(contestant.transport, self.folder, self.number)
        log = os.path.join(self.folder, f'{self.number}.log')
        server = process.Process(contestant.command(address), log, contestant.environment)
        failure = client.wait_until_up(server, contestant.protocol, address, contestant.path)
        if failure:
            print(f'{contestant.name}: {failure}', file=sys.stderr)
            server.stop()
        return Running(contestant, address, server, failure)

    @contextlib.contextmanager
    def running(self, *recipes):
        """Starts contestants one after the other and ends them all afterwards."""
        started = []
        try:
            for recipe in recipes:
                started.append(self.start(recipe))
            yield started
        finally:
            for one in started:
                one.process.stop()

    @contextlib.contextmanager
    def front(self, servers, keep_alive=True):
        """One nginx before all of them; yields it with the address it answers on for each."""
        front = Front(self.folder)
        try:
            ports = [front.add(server.contestant, server.address, keep_alive) for server in servers]
            nginx = front.start()
            addresses = [f'127.0.0.1:{port}' for port in ports]
            for server, address in zip(servers, addresses):
                server.failure = server.failure or client.wait_until_up(nginx, 'http', address, server.contestant.path)
            yield nginx, addresses
        finally:
            front.stop()

    def undisturbed(self, measure, *roots):
        """Calls `measure` and returns its result; again when other processes used the machine meanwhile.

        `roots` are the processes that belong to the measurement, besides those that `measure` starts and waits for.
        """
        for attempt in range(ATTEMPTS):
            before, start = busy_seconds(roots), time.monotonic()
            result = measure()
            foreign = busy_seconds(roots) - before
            percent = 100 * foreign / (time.monotonic() - start) / os.cpu_count()
            if percent < DISTURBED_PERCENT:
                break
        self.worst_disturbance = max(self.worst_disturbance, percent)
        return result


def busy_seconds(roots):
    """CPU time of the whole machine without that of `roots`, of this process and of the children it waited for."""
    with open('/proc/stat') as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    total = (user + nice + system + irq + softirq + steal) / os.sysconf('SC_CLK_TCK')
    own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return total - own - sum(process.cpu_seconds(root) for root in roots)
