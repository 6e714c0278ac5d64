"""Regular expressions that are compiled on first use.

Compiling takes longer than most searches do. A command uses half of the expressions in the modules
that it imports.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, AnyStr, cast


class _Lazy:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """An attribute of the compiled expression, found here from now on."""
        if name.startswith("__"):  # such as `__deepcopy__`, which must not compile anything
            raise AttributeError(name)
        value = getattr(re.compile(self._pattern, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, when it is first needed; an error in the expression shows then, too."""
    return cast("re.Pattern[AnyStr]", _Lazy(expression, flags))


class SlowSearchError(Exception):
    """A search took longer than it may."""


@contextmanager
def search_limit(seconds: float) -> Iterator[None]:
    """Raise `SlowSearchError` when the searches inside take more processor time than this.

    Python's expressions can take time that doubles with every character, as `(a+)+$` does. A search
    looks for signals now and then, and only the main thread gets them: others are not limited.
    """
    import signal

    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
        or signal.getitimer(signal.ITIMER_VIRTUAL)[0]
    ):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise SlowSearchError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
