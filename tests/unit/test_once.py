from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

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


def test_questions_about_another_object_do_not_wait() -> None:
    begun, may_end = threading.Event(), threading.Event()
    one, other = Subject(), Subject()

    @once
    def slow(about: Subject) -> Answer:
        if about is one:
            begun.set()
            assert may_end.wait(60)
        return Answer()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(slow, one)
        assert begun.wait(60)
        meanwhile = weakref.ref(slow(other))
        may_end.set()
        assert slow(one) is first.result()
    # The last question was about the first object: nothing of the other one stays.
    gc.collect()
    assert meanwhile() is None


def test_a_question_that_fails_can_be_asked_again() -> None:
    tries = []

    @once
    def fails_once(about: Subject) -> Answer:
        tries.append(about)
        if len(tries) == 1:
            raise ValueError
        return Answer()

    one = Subject()
    with pytest.raises(ValueError):  # noqa: PT011 - it has no text
        fails_once(one)
    assert fails_once(one) is fails_once(one)
