"""The broker: topics, publishing, reading, groups and their cursors, queues, transactions."""
