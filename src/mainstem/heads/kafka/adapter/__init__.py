"""Maps Kafka's protocol to the broker: one file per API in ``apis``, and their common parts.

| Kafka's word | the broker's word |
|---|---|
| record, message | event |
| record batch, record set | record batch |
| committed offset | cursor |
| consumer group | group |
| high watermark | tail |
| log start offset | start |
| leader epoch | epoch |
"""
