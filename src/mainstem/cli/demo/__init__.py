"""What ``./run`` starts: a live demo with Spark, and a tour of the log inside a Python process."""
