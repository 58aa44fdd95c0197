"""The doors to Kafka on the hot path: the group member that reads and the settlement that writes."""
