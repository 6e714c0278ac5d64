"""Modules that are imported on first use, because whoever imports them hardly uses them.

Python imports them in a moment, but a command imports hundreds of modules before it begins.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

STANDARD = ("ipaddress", "linecache", "pickle")
"""Modules of the standard library that others of it, Click and NumPy import and use only for what
no command asks of them: addresses, source lines of a traceback, objects in files. All of them are
there in every Python; what can be missing must not seem to be there."""


class _Late(ModuleType):
    """Stands for a module until one of its attributes is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # One lock for all would be held while a module is imported that another thread imports.
        self.__dict__["_lock"] = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        return getattr(_load(self), name)


def import_on_first_use(names: Iterable[str]) -> None:
    """Put something in the place of each module that nobody has imported yet.

    It imports the module when an attribute is asked for, which is what `from MODULE import` does.
    """
    for name in names:
        if name in sys.modules:
            continue
        late = sys.modules[name] = _Late(name)
        late.__spec__ = type(sys.__spec__)(name, None)  # whoever looks for the module finds it
        package, _, child = name.rpartition(".")
        if package:
            # As an import would; whoever asks the package for the module must find it.
            setattr(import_module(package), child, late)


def _load(late: _Late) -> ModuleType:
    """The module itself, which takes the place of what stood for it."""
    with late.__dict__["_lock"]:
        if sys.modules.get(late.__name__) is late:
            del sys.modules[late.__name__]
        return import_module(late.__name__)


def import_again(package: str) -> ModuleType:
    """Import a package whose import broke off; its modules in C stay, for they load only once."""
    from importlib.machinery import ExtensionFileLoader

    for name, module in list(sys.modules.items()):
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        if name.partition(".")[0] == package and not isinstance(loader, ExtensionFileLoader):
            del sys.modules[name]
    return import_module(package)


class _Functions(ModuleType):
    """Stands for a module of functions: each imports the module when it is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        module = self.__name__

        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(import_module(module), name)(*args, **kwargs)

        call.__name__ = call.__qualname__ = name
        return call


@contextmanager
def functions_on_first_use(names: Iterable[str]) -> Iterator[None]:
    """Meanwhile, take functions from these modules without importing the modules.

    For modules that others import only to pass their functions on. What is not a function becomes
    one that makes it.
    """
    stubs = {name: _Functions(name) for name in names if name not in sys.modules}
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name, stub in stubs.items():
            if sys.modules.get(name) is stub:
                del sys.modules[name]
            package, _, child = name.rpartition(".")
            if vars(sys.modules.get(package, stub)).get(child) is stub:
                import_module(name)  # the package is asked for more than functions
