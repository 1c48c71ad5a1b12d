"""The running sidecar: listeners, processes, workers, the admin port."""
