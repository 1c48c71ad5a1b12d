"""Topic configs that the broker does not know and the sidecar keeps: set, shown and deleted with Kafka's own tools."""
