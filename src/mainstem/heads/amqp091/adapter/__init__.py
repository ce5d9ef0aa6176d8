"""Maps AMQP 0-9-1 to the broker.

| AMQP | the broker |
|---|---|
| virtual host | a namespace of topic names (``topology/names.py``) |
| exchange, binding | definitions of this head (``topology/``) |
| queue | a topic of one partition per priority, with a queue of the same name on it |
| queue declared with ``x-mainstem-topic`` | a queue on that topic, for all its partitions |
| publish | one append to the topics of all queues that it is routed to |
| message | an event (``messages.py``) |
| publisher confirm | sent once the append is as durable as the message and queues require |
| delivery | a delivery without a lock: it belongs to its channel until that is closed |
| ack | ack |
| nack, reject, recover with requeue | nack: redelivery, near its former place |
| nack, reject without requeue | reject: a dead letter if the queue has a target for them |
| prefetch | credit: of one consumer, or shared by the consumers of a channel |
| transaction | one append of all messages and acknowledgements |
"""
