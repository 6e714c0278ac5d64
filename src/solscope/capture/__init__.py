"""Record what a diagnosis needs: host and GPU sensors along with a profile.

The package can be called, to record the program that calls it:

    with solscope.capture("run", steps=20) as recording:
        for batch in batches:
            serve(batch)
            recording.step()
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solscope.capture.session import Capture


class _CallableModule(ModuleType):
    """A module that is also a function, because `solscope.capture` is a part and a verb."""

    def __call__(self, name: str | Path, **options: Any) -> Capture:
        """Record this process: see `solscope.capture.session.Capture`."""
        from solscope.capture.session import Capture

        return Capture(name, **options)


sys.modules[__name__].__class__ = _CallableModule
