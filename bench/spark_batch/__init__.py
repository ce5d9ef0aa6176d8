"""Measures where the time of a small Spark batch goes, on both sides of the Python boundary.

How this works: a session runs two streams in turn, of format("mainstem") and of Spark's own Kafka
connector, while an event is published every 50 ms. Spark tells the parts of a batch in its progress
reports, and those of its job and task in the event log. The Python processes have timers: those of
tasks by a daemon of ours (``daemon.py``), the planning one by a subclass (``source.py``).
"""
