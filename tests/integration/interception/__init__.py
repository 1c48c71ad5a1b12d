"""Interceptors between real clients and a real broker."""
