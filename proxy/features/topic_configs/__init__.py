"""Topic configs that the sidecar stores: set, shown and deleted with Kafka's own tools."""
