"""The built-in interceptors."""
