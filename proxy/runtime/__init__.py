"""Sockets, tasks, threads and the event loop."""
