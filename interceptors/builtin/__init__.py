"""The interceptors that the sidecar brings."""
