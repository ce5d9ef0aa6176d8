"""The commands of ``mainstem``, one file each."""
