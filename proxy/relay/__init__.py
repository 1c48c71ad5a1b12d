"""The session between one client and one broker, without sockets."""
