"""Builds what a run needs and checks that the tools are there. Nothing is installed by itself."""
import os
import shutil
import subprocess
import sys

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCH)
OUTPUT = os.path.join(ROOT, '.build', 'bench')

PACKAGES = {'gcc': 'gcc libc6-dev', 'wrk': 'wrk', 'nginx': 'nginx-light'}


def output(*parts):
    return os.path.join(OUTPUT, *parts)


def check_tools():
    missing = [tool for tool in PACKAGES if not shutil.which(tool)]
    if missing:
        sys.exit(f"{', '.join(missing)} not found. On Debian and Ubuntu: "
                 f"apt-get install {' '.join(PACKAGES[tool] for tool in missing)}")
    if not shutil.which('dotnet'):
        sys.exit('dotnet not found: the .NET 10 SDK is needed, see https://dotnet.microsoft.com/download')


def build():
    os.makedirs(OUTPUT, exist_ok=True)
    for name in ('floor', 'pace', 'turns'):
        source = os.path.join(BENCH, 'native', name + '.c')
        if not up_to_date(output(name), source, os.path.join(BENCH, 'native', 'client.h')):
            run(['gcc', '-O2', '-Wall', '-o', output(name), source])
    publish('MinimalApp', 'PlainApp')


def publish(*apps):
    for name in apps:
        run(['dotnet', 'publish', os.path.join(BENCH, 'apps', name), '-c', 'Release', '-o', output(name), '-v', 'q', '--nologo'])


def publish_command():
    run(['dotnet', 'publish', os.path.join(ROOT, 'src', 'Millrace.Command'), '-c', 'Release', '-o', output('Millrace.Command'), '-v', 'q', '--nologo'])


def up_to_date(product, *sources):
    return os.path.exists(product) and os.path.getmtime(product) >= max(map(os.path.getmtime, sources))


def run(argv):
    result = subprocess.run(argv, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(argv)} failed:\n{result.stdout}{result.stderr}")
