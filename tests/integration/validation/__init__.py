"""Validation between real producers and a real broker."""
