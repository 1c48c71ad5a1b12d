"""What tests share that need no Kafka: a fake broker, clients, messages as kio writes them, documentation as data."""
