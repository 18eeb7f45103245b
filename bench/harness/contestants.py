"""The servers that compete. A contestant is a recipe: how to start one server on one address, and the protocol it speaks there."""
import os
import shutil
import socket
from dataclasses import dataclass, field

from . import build

# What people set to get the most out of Kestrel; the socket options that go with it are in MinimalApp.
TUNED = {
    'DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS': '1',
    'DOTNET_ReadyToRun': '0',
    'DOTNET_TieredPGO': '1',
    'DOTNET_HillClimbing_Disable': '1',
}


@dataclass
class Contestant:
    name: str
    protocol: str                  # fcgi | http
    transport: str                 # unix | tcp
    command: object                # address -> argv
    environment: dict = field(default_factory=dict)
    parameters: str = 'full'       # what nginx sends over FastCGI: full | minimal
    path: str = '/hello'


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def new_address(transport, folder, number):
    return f'unix:{os.path.join(folder, f"s{number}.sock")}' if transport == 'unix' else f'127.0.0.1:{free_port()}'


def url(protocol, address):
    """The address as the .NET applications take it: fastcgi://unix:/path, http://127.0.0.1:5000."""
    return f"{'fastcgi' if protocol == 'fcgi' else 'http'}://{address}"


def named(what, protocol, transport):
    return f"{what}, {'FastCGI' if protocol == 'fcgi' else 'HTTP'}/{'Unix' if transport == 'unix' else 'TCP'}"


def floor(protocol, transport):
    return Contestant(named('C floor', protocol, transport), protocol, transport, lambda address: [build.output('floor'), protocol, address])


def plain(protocol, transport, **more):
    command = lambda address: ['dotnet', build.output('PlainApp', 'PlainApp.dll'), url(protocol, address)]
    return Contestant(named('Millrace plain handler', protocol, transport), protocol, transport, command, **more)


def minimal_app(title, server, protocol, transport, **more):
    command = lambda address: ['dotnet', build.output('MinimalApp', 'MinimalApp.dll'), server, url(protocol, address)]
    return Contestant(named(title, protocol, transport), protocol, transport, command, **more)


def millrace(protocol, transport, **more):
    return minimal_app('Millrace MapGet', 'millrace', protocol, transport, **more)


def kestrel(transport, **more):
    return minimal_app('Kestrel MapGet', 'kestrel', 'http', transport, **more)


def tuned_kestrel(transport, **more):
    return minimal_app('Kestrel tuned', 'kestrel-tuned', 'http', transport, environment=TUNED, **more)


def node():
    """A list, so that it is empty where node is not installed."""
    if not shutil.which('node'):
        return []
    script = os.path.join(build.BENCH, 'apps', 'node-server.mjs')
    return [Contestant('node, HTTP/TCP', 'http', 'tcp', lambda address: ['node', script, address])]
