"""Runs: one class-incremental experiment each, in a folder of its own."""
