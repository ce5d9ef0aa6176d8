"""Maps STOMP to the broker.

| STOMP | the broker |
|---|---|
| SEND | an event; its headers are the event's headers, ``mainstem-key`` its key |
| ``/queue/NAME`` | topic NAME with a queue called NAME |
| ``/queue/TOPIC::QUEUE`` | topic TOPIC with a queue called QUEUE |
| ``/topic/NAME`` | topic NAME, read from its end while the session lasts |
| durable subscription to ``/topic/NAME`` | a queue on topic NAME, named by its id, from the end |
| ``/temp-queue/NAME``, ``/reply-queue/ID`` | an in-memory topic, deleted with its session |
| ``/amq/queue/NAME`` | as ``/queue/NAME``, but it must exist |
| MESSAGE | a delivery of a queue, or an event of a topic |
| ACK | ack |
| NACK | nack: redelivery; with ``requeue:false`` reject: dead letter |
| prefetch | credit: how many more messages may be sent |
| a transaction | one append of all its events and settlements |
"""
