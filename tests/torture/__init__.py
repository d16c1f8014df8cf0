"""The torture of "nothing is lost": programs that record are killed, and their runs are read.

program.py   what a victim does, operation by operation, and what must be on record after each
victim.c     plays a program, through the C interface
victim.py    the same, through the Python package
scene.py     one run: its victims, their pipes, their ends
ways.py      the ways to die
check.py     a run read afterwards, held against what its victims told
table.py     the figures, in docs/reliability.md
build.py     the C victim and the command, built
__main__.py  `make torture`
"""
