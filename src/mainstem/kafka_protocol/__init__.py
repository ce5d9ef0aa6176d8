"""Kafka's wire format, pure: bytes in, values out, for servers and clients alike.

``messages/``        every message as a class, one module per group of APIs; ``apis.py`` lists them
``server_codec.py``  bytes to requests, responses to bytes; ``client_codec.py`` the other way round
``decoders.py``      writes the source of a decoder for one message in one version; ``encoders.py``
                     its counterpart; both from the message's class (``fields.py``, ``api.py``)
``classic_group_metadata.py``  what members of classic groups send one another
``error_codes.py``   the error codes
``topic_configs.py`` the one table of topic configs: Kafka's names and ours
"""
