"""Operations of the AMQP head for the admin port and for RabbitMQ's management API."""
