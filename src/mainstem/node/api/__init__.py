"""The node's operations on the admin port: topics, groups, queues, dead letters, the node itself.

``registration.py`` registers all of them; the addresses, JSON schemas and the reference page follow
from the types of their arguments and answers.
"""
