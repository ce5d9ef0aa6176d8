"""Runs of a pipeline and of each table, the batches that they write, and replays."""
