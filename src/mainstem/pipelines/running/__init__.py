"""Runs of a pipeline and of each table, the batches they write, and replays."""
