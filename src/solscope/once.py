"""Answers that several views ask for, computed once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")
Details = ParamSpec("Details")


def once(
    ask: Callable[Concatenate[Subject, Details], Answer],
) -> Callable[Concatenate[Subject, Details], Answer]:
    """Keep the answers about the object that `ask` was last asked about, as long as it lives.

    For objects that do not change, such as an attributed profile and its tables: views of one page
    ask the same of it. Whoever gets an answer must not change it. While a thread computes one,
    others that ask `ask` wait.
    """
    lock = RLock()
    last: list[tuple[weakref.ref[Any], dict[Any, Answer]]] = []

    @wraps(ask)
    def answer(about: Subject, /, *args: Details.args, **kwargs: Details.kwargs) -> Answer:
        asked = (args, *kwargs.items())
        with lock:
            answers = next((known for reference, known in last if reference() is about), None)
            if answers is None:
                answers = {}
                last[:] = [(weakref.ref(about, lambda _: last.clear()), answers)]
            if asked not in answers:
                answers[asked] = ask(about, *args, **kwargs)
            return answers[asked]

    return answer
