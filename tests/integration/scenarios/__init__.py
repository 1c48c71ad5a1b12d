"""What each client does against a cluster: directly, and through a sidecar."""
