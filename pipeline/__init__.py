"""Spark jobs: reconcile what was audited, replay a policy over the history of a topic. Never imported by the proxy."""
