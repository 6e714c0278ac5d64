"""Regular expressions that are compiled on first use.

Compiling takes longer than most searches do. A command uses half of the expressions in the modules
that it imports.
"""

from __future__ import annotations

import re
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
