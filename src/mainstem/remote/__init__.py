"""A Kafka cluster as its clients see it: produce, consume, administer.

``cluster.py`` has the address and settings. ``admin.py``, ``consumer_groups.py`` and
``share_groups.py`` administer. ``producer.py``, ``transactions.py``, ``consumer.py`` and
``share_consumer.py`` wrap librdkafka; ``connection.py`` speaks the protocol where librdkafka is too
slow or lacks a call.
"""
