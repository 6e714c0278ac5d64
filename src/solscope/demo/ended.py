"""What came of the commands of an example."""

from __future__ import annotations

import msgspec


class Ended(msgspec.Struct, frozen=True):
    """One command that was run, or skipped."""

    example: str
    command: str
    exit_code: int | None
    """Null when it was skipped."""
    expected_exit_code: int
    skipped: str | None
    """Why it was not run."""
    output: str | None
    """What it printed; null where that went to the terminal."""

    @property
    def as_expected(self) -> bool:
        """False when the command failed."""
        return self.skipped is not None or self.exit_code == self.expected_exit_code
