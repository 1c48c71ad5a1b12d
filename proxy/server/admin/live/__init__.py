"""Snapshots of a sidecar, one each second: as JSON values, as a stream of them, and as a page for a browser."""
