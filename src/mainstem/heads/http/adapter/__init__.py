"""The HTTP head and the broker: each request becomes operations of the door.

| HTTP | mainstem |
|---|---|
| ``POST /topics/T/events`` | publish, all events of a request in one append |
| ``GET /topics/T/events`` | read a range of events, or follow the topic |
| lease, ``delivery`` | deliveries of a queue to an owner of their own, with locks |
| WebSocket | subscriptions; deliveries of queues belong to its connection |
| position (``0:12,1:5``) | the next offset to read in each partition |
"""
