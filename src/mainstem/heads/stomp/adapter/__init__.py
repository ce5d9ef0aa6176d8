"""Maps STOMP to the broker.

| theirs | ours |
|---|---|
| SEND | an event; its headers are the event's headers, ``mainstem-key`` its key |
| ``/queue/NAME`` | topic NAME with a queue called NAME |
| ``/queue/TOPIC::QUEUE`` | topic TOPIC with a queue called QUEUE |
| ``/topic/NAME`` | topic NAME, read from its end while the session lasts |
| a durable subscription to it | a queue on topic NAME, from its end on, with the id as its name |
| ``/temp-queue/NAME``, ``/reply-queue/ID`` | an in-memory topic, deleted with its session |
| ``/amq/queue/NAME`` | as ``/queue/NAME``, but it must exist |
| MESSAGE | a delivery of a queue, or an event of a topic |
| ACK | ack |
| NACK | nack: redelivery; with ``requeue:false`` reject: dead letter |
| prefetch | credit |
| a transaction | one append of all its events and settlements |
"""
