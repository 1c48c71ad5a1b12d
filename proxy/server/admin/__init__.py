"""The admin port: metrics and probes over HTTP."""
