"""Stands in for the device timer where there is no GPU: it calls, and tells times of its own.

A call takes 40 us by Kineto and 45 us by events. A graph is a list of what torch was asked to do,
done again where one replay is asked for; more of them take no time.
"""

from __future__ import annotations

from typing import Any


class DeviceTimer:
    def __init__(self, torch: Any) -> None:
        self.captured: list[Any] | None = None

    def sync(self) -> None:
        pass

    def rehearse(self) -> None:
        pass

    def free(self) -> None:
        self.captured = None

    def time(
        self, call: Any, calls: Any, order: Any, kineto: bool, spin_us: float
    ) -> dict[str, Any]:
        for index, _ in order:
            calls.put_back(index)
            calls.done(index, call(index))
        many = len(order)
        reply: dict[str, Any] = {"events_us": [45.0] * many, "host_us": [20.0] * many}
        reply["lag_us"] = [1.0] * many
        if kineto:
            reply |= {"span_us": [40.0] * many, "activities": [2] * many}
        return reply

    def capture(self, calls: Any) -> Any:
        from torch.utils._python_dispatch import TorchDispatchMode

        recorded: list[Any] = []

        class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                result = function(*args, **(kwargs or {}))
                recorded.append((function, args, kwargs or {}, result))
                return result

        with Recording():  # type: ignore[no-untyped-call]
            kept = calls()
        self.captured = recorded
        return kept

    def replay(self, times: int) -> None:
        assert self.captured is not None
        for function, args, kwargs, result in self.captured if times == 1 else ():
            again = function(*args, **kwargs)
            if hasattr(result, "copy_"):
                result.copy_(again)
