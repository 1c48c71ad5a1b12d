"""Kubernetes manifests: the sidecar's container, and pods to which it is added."""
