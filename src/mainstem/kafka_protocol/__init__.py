"""Kafka's wire format, pure: bytes in, values out, for servers and clients alike.

``messages/``        every message as a class, one file per group of APIs; ``APIS`` has them by key
``codec.py``         requests and responses to bytes and back
``decoders.py``      writes the source of a decoder for one message in one version; ``encoders.py``
                     its counterpart; both from the message's class (``fields.py``, ``api.py``)
``error_codes.py``   the error codes
``topic_configs.py`` the one table of topic configs: Kafka's names and ours
"""
