"""A real Apache Kafka and a real Valkey on this machine, from packages alone."""
