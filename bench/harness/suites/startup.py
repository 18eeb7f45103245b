"""From the start of the process to its first right answer."""
import os
import time

from .. import client, contestants, process
from .. import contestants as c
from ..report import Report, medians

COLUMNS = [('milliseconds', 'ms', '.0f'), ('cpu', 'CPU ms', '.0f'), ('errors', 'errors', 'd')]
REPETITIONS_PER_ROUND = 3


def startup(session):
    """Process start to first answer."""
    report = Report('startup', 'process start to first answer', COLUMNS)
    recipes = [c.plain('fcgi', 'unix'), c.millrace('fcgi', 'unix'), c.millrace('http', 'tcp'), c.kestrel('tcp')]
    samples = {recipe.name: [] for recipe in session.chosen(recipes)}
    for round_number in range(session.rounds):
        with session.quiet():
            for recipe in session.chosen(recipes):
                samples[recipe.name] += [start_once(session, recipe) for _ in range(REPETITIONS_PER_ROUND)]
    for name, found in samples.items():
        failed = next((sample['failed'] for sample in found if 'failed' in sample), None)
        report.add(name, **({'failed': failed} if failed else medians(found)))
    for mine in recipes[1:3]:
        report.ratio_at_most('ms', 'milliseconds', mine.name, 1.05, recipes[3].name)
    return report


def start_once(session, recipe):
    session.number += 1
    address = contestants.new_address(recipe.transport, session.folder, session.number)
    start = time.perf_counter()
    server = process.Process(recipe.command(address), os.path.join(session.folder, f'{session.number}.log'), recipe.environment)
    try:
        while True:
            try:
                client.get(recipe.protocol, address, recipe.path)
                return {'milliseconds': (time.perf_counter() - start) * 1000, 'cpu': server.cpu_seconds() * 1000, 'errors': 0}
            except OSError:
                if not server.alive() or time.perf_counter() - start > 20:
                    return {'failed': server.last_words()}
                time.sleep(0.001)
    finally:
        server.stop()
