"""The measurements of ``mainstem bench``."""
