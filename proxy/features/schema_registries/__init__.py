"""Schema registries that policies and interceptors ask: opened, watched and counted."""
