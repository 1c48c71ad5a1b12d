"""What a sidecar takes, as prices: a model, the runs that it is fitted to, and the page that is written from it."""
