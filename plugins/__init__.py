"""What libraries have in common: how plug-ins are found and their settings read, and what they need of the proxy."""
