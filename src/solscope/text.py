"""Text for people: what of a profile may reach a terminal, and how percentages are written."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.patterns import lazy_pattern

# C0 and C1 controls (escape sequences start with one), and marks that reorder or hide text.
_UNSAFE = lazy_pattern(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without anything that could steer a terminal: such characters show as `\\x1b`."""
    return _UNSAFE.sub(lambda m: f"\\x{ord(m.group()):02x}", text)


def encodable(text: str) -> str:
    """`text` that can be printed and saved: names of files need not be valid UTF-8."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def shorten(text: str, width: int) -> str:
    """`text`, made safe, in at most `width` characters, its middle left out."""
    if len(text) > 8 * width:
        text = text[: 4 * width] + text[-4 * width :]
    text = clean(text)
    if len(text) <= width:
        return text
    tail = width // 3
    return f"{text[: width - tail - 1]}…{text[len(text) - tail :]}" if width > 3 else text[:width]


def percent(value: float, digits: int = 1) -> str:
    """A percentage as it is written everywhere: `12.3 %`."""
    return f"{value:.{digits}f} %"


def as_percent(share: float, digits: int = 0) -> str:
    """A share of 1 as a percentage."""
    return percent(100 * share, digits)


def in_words(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def capitalized(text: str) -> str:
    """The text as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def as_sentence(text: str) -> str:
    """A clause as a sentence of its own."""
    return f"{capitalized(text).removesuffix('.')}."
