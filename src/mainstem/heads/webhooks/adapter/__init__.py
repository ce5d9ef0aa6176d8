"""Maps webhooks to the broker.

| theirs | ours |
|---|---|
| an endpoint | a definition, and the queue ``webhook.NAME`` on each of its topics |
| an attempt | a delivery of that queue, and an event in the topic ``webhooks.attempts`` |
| 2xx | ack |
| a failure | nack with the schedule's delay; after the last one reject, so a dead letter |
| 410 Gone | release: the event stays in the queue of the disabled endpoint |
| a source | a definition; what it sends becomes events of its topic |
| the id of a received webhook | an event in ``webhooks.received``, appended together |
"""
