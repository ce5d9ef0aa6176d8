"""The operations of the admin port: on topics, groups, queues, dead letters, the node itself.

``registration.py`` registers all of them; their addresses, JSON schemas and the reference page are
derived from the types of their arguments and answers.
"""
