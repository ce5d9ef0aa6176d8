"""Spark itself: requirements, the JVM, Spark Connect, executors, retries, errors, progress."""
