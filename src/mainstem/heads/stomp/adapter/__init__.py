"""STOMP in terms of the broker.

| theirs | ours |
|---|---|
| SEND | an event; its headers are the event's headers, ``mainstem-key`` its key |
| ``/queue/NAME`` | topic NAME with a queue called NAME |
| ``/queue/TOPIC::QUEUE`` | topic TOPIC with a queue called QUEUE |
| ``/topic/NAME`` | topic NAME, followed from its end while the session lasts |
| a durable subscription to it | a queue of topic NAME, from its end on, with the id as its name |
| ``/temp-queue/NAME``, ``/reply-queue/ID`` | a topic of its own in memory, gone with its session |
| ``/amq/queue/NAME`` | as ``/queue/NAME``, but it must be there |
| MESSAGE | a delivery of a queue, or an event of a topic that is followed |
| ACK | ack |
| NACK | nack: it comes again; with ``requeue:false`` reject: a dead letter |
| prefetch | credit |
| a transaction | one append of all events and settlements |
"""
