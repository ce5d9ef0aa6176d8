"""One log underneath, every messaging style as a view of it, Spark on top."""
