"""Processes under measurement: their CPU time to the nanosecond, and their memory. Only processes that were started here are ended."""
import os
import re
import resource
import signal
import subprocess
import time


def children_of(root):
    """The process and everything below it."""
    parents = {}
    for entry in os.listdir('/proc'):
        if entry.isdigit():
            try:
                with open(f'/proc/{entry}/stat') as stat:
                    text = stat.read()
            except OSError:
                continue
            parents[int(entry)] = int(text[text.rindex(')') + 2:].split()[1])
    family, grew = {root}, True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in family and pid not in family}
        family |= more
        grew = bool(more)
    return family


def cpu_clock_seconds(pid):
    """CPU time of all threads of a process, those that have ended too: the process clock of clock_getcpuclockid(3)."""
    process_clock = (~pid << 3) | 2
    try:
        return time.clock_gettime_ns(process_clock) / 1e9
    except OSError:
        return 0.0


def cpu_seconds(root):
    return sum(cpu_clock_seconds(pid) for pid in children_of(root))


def memory_kilobytes(root):
    """Proportional set size: resident pages, those shared with other processes counted in part."""
    return sum(read_field(f'/proc/{pid}/smaps_rollup', 'Pss') for pid in children_of(root))


def peak_kilobytes(pid):
    return read_field(f'/proc/{pid}/status', 'VmHWM')


def reset_peak(pid):
    with open(f'/proc/{pid}/clear_refs', 'w') as refs:
        refs.write('5')


def read_field(path, name):
    try:
        with open(path) as file:
            return int(re.search(rf'^{name}:\s+(\d+) kB', file.read(), re.M).group(1))
    except (OSError, AttributeError):
        return 0


def allow_many_descriptors():
    """Raises the limit as far as it goes, for this process and those it starts, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Process:
    """A server process with its own process group and its output in a log file."""

    def __init__(self, argv, log, environment=None):
        self.argv = argv
        self.log = log
        with open(log, 'w') as stream:
            self.popen = subprocess.Popen(argv, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
                                          stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def pid(self):
        return self.popen.pid

    def cpu_seconds(self):
        return cpu_seconds(self.pid)

    def alive(self):
        return self.popen.poll() is None

    def last_words(self):
        with open(self.log, errors='replace') as stream:
            lines = [line.strip() for line in stream if line.strip()]
        return lines[0][:160] if lines else 'no output'

    def stop(self):
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if not self.alive():
                return
            os.killpg(self.pid, sign)
            try:
                self.popen.wait(timeout=5)
            except subprocess.TimeoutExpired:
                pass
