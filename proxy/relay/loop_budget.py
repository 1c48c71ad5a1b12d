"""How much time exchanges may take from the event loop before other connections have a turn."""

from __future__ import annotations

MAX_TURN_S = 0.01


class LoopBudget:
    """The time that the exchanges of all connections have taken since others last had a turn."""

    __slots__ = ("spent_s",)

    def __init__(self) -> None:
        self.spent_s = 0.0

    @property
    def is_spent(self) -> bool:
        return self.spent_s >= MAX_TURN_S

    def renew(self) -> None:
        """Others have had their turn."""
        self.spent_s = 0.0
