"""Answers that several views ask for, computed once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from threading import Lock, RLock
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

Subject = TypeVar("Subject")
Answer = TypeVar("Answer")
Details = ParamSpec("Details")


@dataclass(eq=False)
class _Known(Generic[Answer]):
    """Answers about one object, and how many threads ask about it now."""

    about: weakref.ref[Any]
    answers: dict[Any, Answer]
    lock: RLock = field(default_factory=RLock)
    asking: int = 0


def once(
    ask: Callable[Concatenate[Subject, Details], Answer],
) -> Callable[Concatenate[Subject, Details], Answer]:
    """Keep the answers about the object that `ask` was last asked about, as long as it lives.

    For objects that do not change, such as an attributed profile and its tables: views of one page
    ask the same of it. Whoever gets an answer must not change it. While a thread computes one,
    others that ask `ask` about the same object wait, and those that ask about another do not. What
    is asked must not ask itself about another object: two threads could wait for each other.
    """
    guard = Lock()
    known: list[_Known[Answer]] = []

    def of(about: Subject) -> _Known[Answer]:
        """What is known of it; of other objects, only what a thread asks about stays."""
        with guard:
            mine = next((one for one in known if one.about() is about), None)
            if mine is None:
                answers: dict[Any, Answer] = {}
                mine = _Known(weakref.ref(about, lambda _: answers.clear()), answers)
            mine.asking += 1
            known[:] = [mine, *(one for one in known if one.asking and one is not mine)]
            return mine

    @wraps(ask)
    def answer(about: Subject, /, *args: Details.args, **kwargs: Details.kwargs) -> Answer:
        asked = (args, *kwargs.items())
        mine = of(about)
        try:
            with mine.lock:
                if asked not in mine.answers:
                    mine.answers[asked] = ask(about, *args, **kwargs)
                return mine.answers[asked]
        finally:
            with guard:
                mine.asking -= 1
                known[1:] = [one for one in known[1:] if one.asking]

    return answer
