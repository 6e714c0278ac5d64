"""Work in a separate thread that does not keep the server from exiting.

Threads of a pool are waited for at the end of a program, however long they still read.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Value = TypeVar("Value")


async def run_in_thread(
    work: Callable[Given, Value], *given: Given.args, **named: Given.kwargs
) -> Value:
    """What `work` returns or raises; when nobody waits any longer, it is left to itself."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Value] = loop.create_future()

    def tell(how: Callable[[Any], None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: the server has ended.
            loop.call_soon_threadsafe(lambda: None if answer.done() else how(what))

    def run() -> None:
        try:
            value = work(*given, **named)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the work was asked for
            tell(answer.set_exception, error)
        else:
            tell(answer.set_result, value)

    threading.Thread(target=run, daemon=True).start()
    return await answer
