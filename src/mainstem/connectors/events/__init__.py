"""What a connector publishes: changes in Debezium's envelope, and events beside them."""
