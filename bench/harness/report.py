"""Tables, and the targets with their verdict. Figures are medians; only ratios between rows of one run mean anything."""
import statistics


class Report:
    """What one suite found: a title, rows of figures, and targets."""

    def __init__(self, suite, title, columns):
        self.suite = suite
        self.title = title
        self.columns = columns     # (key, heading, format)
        self.rows = []             # {'name': ..., key: figure}
        self.targets = []
        self.notes = []

    def add(self, name, **figures):
        self.rows.append({'name': name, **figures})

    def figure(self, name, key):
        for row in self.rows:
            if row['name'] == name:
                return row.get(key)
        return None

    def at_most(self, what, measured, limit, unit=''):
        self._target(what, measured, limit, unit, '<=')

    def at_least(self, what, measured, limit, unit=''):
        self._target(what, measured, limit, unit, '>=')

    def ratio_at_most(self, what, key, name, factor, reference):
        self._ratio(what, key, name, factor, reference, '<=')

    def ratio_at_least(self, what, key, name, factor, reference):
        self._ratio(what, key, name, factor, reference, '>=')

    def _ratio(self, what, key, name, factor, reference, sign):
        mine, other = self.figure(name, key), self.figure(reference, key)
        measured = mine / other if mine is not None and other else None
        self._target(f'{name}: {what} / {reference}', measured, factor, 'x', sign)

    def _target(self, what, measured, limit, unit, sign):
        met = None if measured is None else (measured <= limit if sign == '<=' else measured >= limit)
        self.targets.append({'what': what, 'measured': measured, 'sign': sign, 'limit': limit, 'unit': unit, 'met': met})

    def print(self):
        print(f'\n## {self.suite}: {self.title}')
        widths = [max(len(heading), 9) for _, heading, _ in self.columns]
        first = max([len(row['name']) for row in self.rows] + [6])
        print(' ' * first + ''.join(f'  {heading:>{width}}' for (_, heading, _), width in zip(self.columns, widths)))
        for row in self.rows:
            if 'failed' in row:
                print(f"{row['name']:{first}}  {row['failed']}")
                continue
            cells = (format(row[key], form) if row.get(key) is not None else '-' for key, _, form in self.columns)
            print(f"{row['name']:{first}}" + ''.join(f'  {cell:>{width}}' for cell, width in zip(cells, widths)))
        for note in self.notes:
            print(note)
        if self.targets:
            width = max(len(target['what']) for target in self.targets)
            print(f"\n{'target':{width}}  {'measured':>10}  {'limit':>12}")
            for target in self.targets:
                measured = '-' if target['measured'] is None else f"{target['measured']:,.2f}"
                verdict = {True: 'pass', False: 'MISS', None: 'n/a'}[target['met']]
                limit = f"{target['sign']} {target['limit']:,g} {target['unit']}".rstrip()
                print(f"{target['what']:{width}}  {measured:>10}  {limit:>12}  {verdict}")
        print(flush=True)

    def to_json(self):
        return {'suite': self.suite, 'title': self.title, 'rows': self.rows, 'targets': self.targets, 'notes': self.notes}


def medians(samples):
    """One figure per key of the samples: the median; 'errors' are summed."""
    result = {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
    result['errors'] = sum(sample['errors'] for sample in samples)
    return result


def spread(samples, key):
    """Half the distance between the extremes, in percent of the median: the noise of the figure."""
    values = [sample[key] for sample in samples]
    middle = statistics.median(values)
    return 50 * (max(values) - min(values)) / middle if middle else 0.0
