"""The program: configuration, sessions without sockets, addresses, transport, server, admin, command line."""
