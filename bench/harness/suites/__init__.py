"""The suites by name. Each is a function of the session that returns a Report; its first line of documentation is shown by bench/run."""
from . import alloc, blocking, flood, idle, isolation, neighbours, pools, rates, router, sessions, startup, throughput, transfer

SUITES = {
    'fastcgi': throughput.fastcgi,
    'fastcgi-nokeep': throughput.fastcgi_nokeep,
    'http': throughput.http,
    'pipelined': throughput.pipelined,
    'shortlived': throughput.shortlived,
    'rates': rates.rates,
    'idle': idle.idle,
    'transfer': transfer.transfer,
    'blocking': blocking.blocking,
    'blocking-fastcgi': blocking.blocking_fastcgi,
    'isolation': isolation.isolation,
    'flood': flood.flood,
    'startup': startup.startup,
    'alloc': alloc.alloc,
    'router': router.router,
    'neighbours': neighbours.neighbours,
    'sessions': sessions.sessions,
    'pools': pools.pools,
}
