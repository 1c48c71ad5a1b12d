"""One page about what `reconcile` has found: completeness, losses, latency, rejections, lateness."""
