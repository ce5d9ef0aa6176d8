"""The log inside this process: ``mainstem.open``."""
