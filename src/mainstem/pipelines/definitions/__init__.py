"""The content of a pipeline file: its tables, their sources, and the checks without Spark."""
