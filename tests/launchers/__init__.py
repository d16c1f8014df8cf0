"""Runs under the launchers that people use, started for real. `make test-launchers` runs them.

processes.py   what a test starts, known by a mark in its environment, and ended for sure
native.py      programs in C, and what was installed for them
programs.py    programs that the tests launch
pages.py       the pages in docs/launchers: their files are written, their commands run
slurm.py       a cluster of Slurm of two nodes on this machine
open_mpi.py    mpirun
hosts.py       two hosts on this machine, with a network between them
ray_cluster.py drivers of Ray, each with a cluster of its own

A further launcher has a module of its own with a class that can be started and stopped, a fixture
for it in conftest.py with the scope of the session, which skips with the reason where it cannot be
had, a file of tests, and a page.
"""
