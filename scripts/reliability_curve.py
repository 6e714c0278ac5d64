"""The reliability curve of confidences, as a small SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_WIDTH, _HEIGHT, _LEFT, _TOP = 460, 300, 56, 16
_COLORS = {"layer": "#2a6fb0", "role": "#b5532a", "kind": "#3c8a4e"}
_LOWEST = 0.4
"""Where both axes begin."""


class Point(NamedTuple):
    """Claims of one subject with confidences of one range."""

    subject: str
    low: float
    high: float
    share: float
    """Share of GPU time."""
    confidence: float
    right: float

    def as_row(self) -> str:
        """A row of a Markdown table."""
        return (
            f"| {self.subject} | {self.low:.2f} to {self.high:.2f} | {100 * self.share:.1f} "
            f"| {self.confidence:.3f} | {self.right:.3f} |"
        )


def draw(points: Sequence[Point]) -> str:
    """Mean confidence against the share that was right; the area of a dot is its share of time."""
    ticks = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    bottom = _TOP + _HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 24} {bottom + 44}"'
        ' font-family="sans-serif" font-size="12" fill="#444">',
        "<title>Reliability of confidences: mean confidence and share that was right</title>",
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="#fff" '
        'stroke="#999"/>',
        f'<path d="M{_LEFT},{bottom} L{_LEFT + _WIDTH},{_TOP}" stroke="#999" '
        'stroke-dasharray="4 4"/>',
    ]
    for tick in ticks:
        lines.append(
            f'<text x="{_x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:.1f}</text>'
        )
        lines.append(
            f'<text x="{_LEFT - 6}" y="{_y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>'
        )
    for number, (subject, color) in enumerate(_COLORS.items()):
        for point in (p for p in points if p.subject == subject):
            radius = 3 + 14 * point.share**0.5
            lines.append(
                f'<circle cx="{_x(point.confidence):.1f}" cy="{_y(point.right):.1f}" '
                f'r="{radius:.1f}" fill="{color}" fill-opacity="0.55"/>'
            )
        height = bottom - 16 - 18 * number
        lines.append(f'<circle cx="{_LEFT + _WIDTH - 70}" cy="{height - 4}" r="5" fill="{color}"/>')
        lines.append(f'<text x="{_LEFT + _WIDTH - 58}" y="{height}">{subject}</text>')
    lines.append(
        f'<text x="{_LEFT + _WIDTH / 2}" y="{bottom + 36}" text-anchor="middle">confidence</text>'
    )
    lines.append(
        f'<text x="14" y="{_TOP + _HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {_TOP + _HEIGHT / 2})">right</text>'
    )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _x(value: float) -> float:
    return _LEFT + _WIDTH * (max(value, _LOWEST) - _LOWEST) / (1 - _LOWEST)


def _y(value: float) -> float:
    return _TOP + _HEIGHT * (1 - (max(value, _LOWEST) - _LOWEST) / (1 - _LOWEST))
