"""The shell door: one module a command."""
