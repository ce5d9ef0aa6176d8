"""AMQP 0-9-1 over TCP, as RabbitMQ speaks it: exchanges, queues, confirms and dead letters."""
