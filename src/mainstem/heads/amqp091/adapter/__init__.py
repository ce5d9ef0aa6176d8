"""Maps AMQP 0-9-1 to the broker.

| theirs | ours |
|---|---|
| virtual host | a namespace of names |
| exchange, binding | definitions of this head (``topology/``) |
| queue | a topic of one partition per priority, with a queue of the same name on it |
| queue declared with ``x-mainstem-topic`` | a queue on that topic, for all its partitions |
| publish | one append to the topics of all queues that it is routed to |
| message | an event (``messages.py``) |
| publisher confirm | the append is as durable as the message and its queues ask for |
| delivery | a delivery without a lock: it stays with its channel until that ends |
| ack | ack |
| nack, reject, recover with requeue | nack: it comes again, near its place |
| nack, reject without requeue | reject: a dead letter if the queue has a target for them |
| prefetch | credit: of a consumer, or of a channel together |
| transaction | one append of all messages and acknowledgements |
"""
