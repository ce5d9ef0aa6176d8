"""The log on a server, through the Kafka protocol: ``mainstem.connect``."""
