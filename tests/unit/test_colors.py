"""The colors of the front end can be told apart, by readers with a color vision deficiency too."""

from __future__ import annotations

import re
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from solscope.attribution.rules import CATEGORIES
from solscope.views.idle import CAUSES

SOURCES = Path(__file__).parents[2] / "frontend" / "src"
COLORS = (SOURCES / "colors.ts").read_text(encoding="utf-8")
HUES = dict(re.findall(r'^  (\w+): "(#[0-9a-f]{6})",$', COLORS, re.MULTILINE))
LEAST = 10.0
"""Smallest difference (CIEDE2000) between two hues."""
LEAST_CONTRAST = 4.5
"""WCAG 2.2 AA for text of normal size."""
# Machado, Oliveira, Fernandes 2009, severity 1.
SEEN = {
    "normal": np.eye(3),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
Color = NDArray[np.float64]


def linear(color: str) -> Color:
    parts = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: Color) -> Color:
    scaled = XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: Color, other: Color) -> float:
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    shift = 1.5 - 0.5 * np.sqrt(mean**7 / (mean**7 + 25.0**7))
    a1, a2 = a1 * shift, a2 * shift
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, a)) % 360 for b, a in ((b1, a1), (b2, a2)))
    turn = (h2 - h1 + 180) % 360 - 180
    hue = (h1 + turn / 2) % 360
    chroma, light = (c1 + c2) / 2, (l1 + l2) / 2
    t = 1 - 0.17 * _cos(hue - 30) + 0.24 * _cos(2 * hue)
    t += 0.32 * _cos(3 * hue + 6) - 0.2 * _cos(4 * hue - 63)
    sl = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    dl, dc = (l2 - l1) / sl, (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    bend = 60 * np.exp(-(((hue - 275) / 25) ** 2))
    rotation = -2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7)) * np.sin(np.radians(bend))
    return float(np.sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh))


def _cos(degrees: float) -> float:
    return float(np.cos(np.radians(degrees)))


def test_the_difference_is_that_of_the_standard() -> None:
    # The first, the fifth and the tenth pair of Sharma, Wu, Dalal 2005.
    for one, other, expected in (
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.1848, -84.8006), (50.0, 0.0, -82.7485), 1.0),
        ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0011), 7.2195),
    ):
        assert difference(np.array(one), np.array(other)) == pytest.approx(expected, abs=1e-4)


def test_there_are_ten_hues() -> None:
    assert len(HUES) == 10


@pytest.mark.parametrize("eyes", SEEN)
def test_hues_can_be_told_apart(eyes: str) -> None:
    seen = {name: lab(SEEN[eyes] @ linear(color)) for name, color in HUES.items()}
    near = {
        (a, b): round(difference(seen[a], seen[b]), 1)
        for a, b in combinations(seen, 2)
        if difference(seen[a], seen[b]) < LEAST
    }
    assert near == {}


def idle() -> dict[str, str]:
    found = re.search(r"IDLE: Record<string, string> = \{([^}]*)\}", COLORS)
    assert found is not None
    pairs = re.findall(r'(\w+): (?:HUES\.(\w+)|"(#\w{6})")', found[1])
    return {cause: HUES[hue] if hue else tint for cause, hue, tint in pairs}


@pytest.mark.parametrize("eyes", SEEN)
def test_idle_time_looks_like_nothing_that_runs(eyes: str) -> None:
    def seen(color: str) -> Color:
        return lab(SEEN[eyes] @ linear(color))

    running = {color for name, color in HUES.items() if f"color: HUES.{name}," in COLORS}
    assert len(running) == 9
    causes = idle()
    pairs = [*combinations(causes.values(), 2), *product(causes.values(), running)]
    near = [(a, b) for a, b in pairs if difference(seen(a), seen(b)) < LEAST]
    assert near == []


def test_every_category_and_cause_has_a_color() -> None:
    families = " ".join(re.findall(r"categories: \[([^\]]*)\]", COLORS))
    assert sorted(re.findall(r'"(\w+)"', families)) == sorted(CATEGORIES)
    assert set(idle()) == set(CAUSES)


def contrast(one: str, other: str) -> float:
    """WCAG 2.2."""
    a, b = sorted(float(XYZ[1] @ linear(color)) for color in (one, other))
    return (b + 0.05) / (a + 0.05)


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None
    return match[1]


def test_names_on_solid_areas_can_be_read() -> None:
    """Time line, icicle, tree and heat map write in black or white, by the light of the area."""
    limit = float(found(r"blue > ([\d.]+) \? \"#000000\"", COLORS))
    colors = set(re.findall(r'"(#[0-9a-f]{6})"', COLORS)) - {"#000000", "#ffffff"}
    assert len(colors) >= 16
    ink = {
        color: "#000000" if float(XYZ[1] @ linear(color)) > limit else "#ffffff" for color in colors
    }
    assert {
        color: ink[color] for color in colors if contrast(color, ink[color]) < LEAST_CONTRAST
    } == {}


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
def test_names_on_the_bars_of_a_benchmark_can_be_read(theme: str) -> None:
    """They are written across the bars and what is above them, in the ink of the page."""
    inks = found(rf"const {theme}: Ink = \{{(.*)\}};", (SOURCES / "chart.tsx").read_text("utf-8"))
    text, surface = (found(rf'{name}: "(#\w{{6}})"', inks) for name in ("text", "surface"))
    pale = float(
        found(r"const PALE = ([\d.]+);", (SOURCES / "charts/bench.tsx").read_text("utf-8"))
    )
    parts = [
        round(
            pale * int(HUES["blue"][at : at + 2], 16) + (1 - pale) * int(surface[at : at + 2], 16)
        )
        for at in (1, 3, 5)
    ]
    bar = "#" + "".join(f"{part:02x}" for part in parts)
    assert contrast(text, bar) >= LEAST_CONTRAST
