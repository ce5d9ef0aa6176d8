"""The measurements of the command ``mainstem bench``."""
