"""WebSockets: subscriptions to topics and queues with credit, acknowledgements, publishing."""
