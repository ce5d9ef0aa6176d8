"""A Kafka address as a client sees it: producing, consuming, administering, by confluent-kafka."""
