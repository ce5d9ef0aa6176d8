"""Parses arguments of commands: sizes and times, positions, queue names, topic settings."""
