"""HTTP requests that the sidecar makes itself: to schema registries, and for tokens and keys."""
