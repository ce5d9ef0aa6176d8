"""Shared code of the ``mainstem pipeline`` commands: options, Spark, progress, metrics."""
