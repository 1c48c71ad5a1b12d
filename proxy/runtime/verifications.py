"""The thread in which passwords, proofs and tokens of clients are verified: a password takes milliseconds of CPU."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Verifications:
    """One after the other, over all connections: attackers who guess passwords have one core, and no event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="logins")  # it starts with the first login

    async def run(self, verify: Callable[[], T]) -> T:
        """What ``verify`` returns or raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, verify)

    def stop(self) -> None:
        """Verify nothing that waits."""
        self._thread.shutdown(wait=False, cancel_futures=True)
