"""Every error that solscope raises on purpose.

::

    SolscopeError
    |- InputError              the file or the value given is at fault
    |  |- UnknownFormatError   no reader recognizes the content
    |  |- DamagedFileError     recognized, but nothing usable can be read from it
    |  `- LimitError           a safety limit was reached; the message names the flag
    |- MissingToolError        an optional package or program is needed
    `- UsageError              the call itself makes no sense

A message says what was found, where, and what to do. The command line prints it as one line and
exits with 2; a library user catches `SolscopeError`.
"""

from __future__ import annotations


class SolscopeError(Exception):
    """Root of all errors that solscope raises on purpose."""


class InputError(SolscopeError):
    """The file or the value given is at fault."""


class UnknownFormatError(InputError):
    """No reader recognizes the content of the file."""


class DamagedFileError(InputError):
    """The format is known, but nothing usable can be read from the file."""


class LimitError(InputError):
    """A safety limit was reached; the message names the option that raises it."""


class MissingToolError(SolscopeError):
    """An optional package or program is needed and absent."""


class UsageError(SolscopeError):
    """The call itself makes no sense, whatever the file holds."""
