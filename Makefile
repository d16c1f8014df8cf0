# The targets; each is one script in scripts/, which says what it does.

.PHONY: help setup demo test test-launchers check format bench asan tsan fuzz torture deb docs clean

help:
	@echo "make demo    install the package, run an example under it, print the report;"
	@echo "             NATIVE=1: with its tree search in C++"
	@echo "make test    C tests, then Python tests with every interpreter found"
	@echo "make test-launchers  runs under Slurm, mpirun and others, which it installs and starts"
	@echo "make check   layout, includes, clang-tidy, ruff, mypy, stubtest"
	@echo "make format  lay out C and Python as make check wants them"
	@echo "make bench   benchmarks of a release build"
	@echo "make asan    C tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make tsan    C tests under ThreadSanitizer"
	@echo "make fuzz    fuzz targets, FUZZ_SECONDS (60) in all"
	@echo "make torture kill TORTURE_DEATHS (5000) recording programs, read what they leave"
	@echo "make deb     packages for Debian, in dist/"
	@echo "make docs    documentation"
	@echo "make clean   remove what was built; the environments in .venv stay"

setup:
	@scripts/setup

demo:
	@scripts/setup demo
	@scripts/demo $(if $(filter-out 0,$(NATIVE)),--native)

test: setup
	@scripts/test

test-launchers:
	@scripts/setup launchers
	@scripts/test_launchers

check: setup
	@scripts/check

format: setup
	@scripts/check --format

bench: setup
	@scripts/bench

asan tsan: setup
	@scripts/sanitize $@

fuzz: setup
	@scripts/fuzz

torture: setup
	@scripts/torture

deb: setup
	@scripts/deb

docs:
	@echo "Nothing to generate: docs/ is read as it is."

clean:
	rm -rf build build-* dist examples/native_actor/build-* examples/native_only/simulator
