"""Pipeline files to begin with, in a directory of their own, as it comes on the path of workers."""
