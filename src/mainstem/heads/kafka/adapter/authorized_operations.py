"""Authorized operations, as Kafka's bit fields: every client is told that it may do everything."""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = range(3, 10)
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(10, 13)
_NOT_ASKED = -(2**31)


def _bits(*operations: int) -> int:
    return sum(1 << each for each in operations)


_OF_CONFIGS = (_DESCRIBE_CONFIGS, _ALTER_CONFIGS)
ON_TOPIC = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, *_OF_CONFIGS)
_ON_GROUP = _bits(_READ, _DELETE, _DESCRIBE, *_OF_CONFIGS)
_ON_CLUSTER = _bits(_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _IDEMPOTENT_WRITE, *_OF_CONFIGS)


def on_group(asked: bool) -> int:
    """Return the bits of all operations on a group, or Kafka's "not requested" value."""
    return _ON_GROUP if asked else _NOT_ASKED


def on_cluster(asked: bool) -> int:
    """Return the bits of all operations on the cluster, or Kafka's "not requested" value."""
    return _ON_CLUSTER if asked else _NOT_ASKED
