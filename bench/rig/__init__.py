"""A load driver and a stub broker around one proxy; see bench/README.md."""

import sys

if sys.platform != "linux":
    raise SystemExit("the relay bench needs Linux: it uses epoll and reads /proc")
