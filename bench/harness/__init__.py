"""What bench/run is made of: building, starting and loading the servers that compete, and the tables that come out.

One file per step of a measurement: build, contestants, process, front (nginx), load, report; and one per kind of suite in suites/.
"""
