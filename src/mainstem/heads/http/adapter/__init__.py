"""The HTTP head and the broker: each request becomes operations of the broker.

| HTTP | mainstem |
|---|---|
| ``POST /topics/T/events`` | publish, all events of a request in one append |
| ``GET /topics/T/events`` | read a range of events, or follow the topic |
| lease, ``delivery`` | locked deliveries of a queue; each lease request has its own owner |
| WebSocket | subscriptions; deliveries of queues belong to the connection |
| position (``0:12,1:5``) | the next offset to read in each partition |
"""
