"""The features of a sidecar. None knows another one; compose.py has the list."""
