from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

from solscope.once import once


class Subject:
    """Something to ask about."""


class Answer:
    """Something that can be told apart."""


@once
def ask(_about: Subject, _times: int = 1, *, loud: bool = False) -> Answer:
    """Answer anew."""
    del loud
    return Answer()


def test_an_answer_is_kept_for_what_was_asked_last() -> None:
    one, other = Subject(), Subject()
    first = ask(one)
    assert ask(one) is first
    assert ask(one, 2) is not first
    assert ask(one, loud=True) is not first
    assert ask(one, 2) is ask(one, 2)
    assert ask(other) is not first
    assert ask(one) is not first


def test_an_answer_lives_no_longer_than_what_it_is_about() -> None:
    one = Subject()
    kept = weakref.ref(ask(one))
    assert kept() is not None
    del one
    gc.collect()
    assert kept() is None


def test_a_second_thread_waits_for_the_answer_that_the_first_computes() -> None:
    begun, may_end = threading.Event(), threading.Event()
    asked = []

    @once
    def slow(about: Subject) -> Answer:
        asked.append(about)
        begun.set()
        assert may_end.wait(60)
        return Answer()

    one = Subject()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(slow, one)
        assert begun.wait(60)
        second = pool.submit(slow, one)
        may_end.set()
        assert first.result() is second.result()
    assert len(asked) == 1
