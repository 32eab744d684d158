"""Measurements, never assertions: `make bench` prints a table and writes build/bench.json."""
