"""Fuzzing: inputs that nobody would write, for every parser and every command. `python -m fuzz --help` says how."""
