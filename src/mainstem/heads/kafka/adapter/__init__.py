"""Kafka's words in terms of the broker's: one file per API in ``apis``, and their common parts.

| theirs | ours |
|---|---|
| record, message | event |
| record batch, record set | record batch |
| committed offset | cursor |
| consumer group | group |
| high watermark | tail |
| log start offset | start |
| leader epoch | epoch |
"""
