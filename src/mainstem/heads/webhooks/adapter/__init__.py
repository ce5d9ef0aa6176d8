"""Maps webhooks to the broker.

| webhooks | the broker |
|---|---|
| an endpoint | a definition, and the queue ``webhook.NAME`` on each of its topics |
| an attempt | a delivery of that queue, and an event in the topic ``webhooks.attempts`` |
| 2xx | ack |
| a failure | nack with the schedule's delay; after the last attempt reject: a dead letter |
| 410 Gone | release: the event stays in the queue of the disabled endpoint |
| a source | a definition; the webhooks that it sends become events of its topic |
| the id of a received webhook | an event in ``webhooks.received``, in the same append |
"""
