"""Measure how often layers, roles and kinds are right, by their evidence.

    python scripts/calibrate_layers.py DIR... [--cache FOLDER] [--write] [--report] [--curve FILE]
    python scripts/calibrate_layers.py DIR... --score

Each DIR holds recordings of architectures: NAME.stack.json.zst or .gz (eager, with Python stacks)
and, where it could be captured, NAME.graph.json.zst with NAME.twin.json.zst (its eager twin).
`architecture_truth.py` reads the truth from the modules in the stacks; what is judged are copies
without stacks, and replays. Rules were written with these recordings at hand, so their passes are
also judged changed (`stress_layers.py`), which counts as much as unusual models among those that
were held out.

--write writes the table that the package reads. --report prints the reliability table, the scores,
and those of each change, all by tables that were made without the family of the architecture;
--curve draws the same as SVG. --score scores recordings that the package's table was not made from.
--cache keeps the passes of recordings, which take long to read.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from architecture_passes import Claims, RecordedPass, judge, kept
from architecture_truth import names_in
from reliability_curve import Point, draw
from stress_layers import stressed

from solscope.attribution import layers, patterns
from solscope.attribution.confidence import (
    AGREED,
    SUBJECTS,
    UNSEEN,
    confidences,
    measured,
    pool_of,
)
from solscope.attribution.layers import find_layers, stack_models
from solscope.attribution.roles import layer_roles
from solscope.attribution.sequence import units

TARGET = Path(__file__).parents[1] / "src" / "solscope" / "attribution" / "confidence.toml"
BINS = (0.0, 0.6, 0.8, 0.9, 0.95, 0.97, 1.01)
SURE = 0.95
VARIANTS = ("stripped", "graph")
UNUSUAL = 4 / 27
"""Architectures among those held out that are built as none before them: Falcon-Mamba, LongCat,
DINOv3 and PixArt. Changed passes count as much, all of them together."""
FAMILIES = {
    "bert": (
        *("bert", "roberta", "electra", "distilbert", "debertav2", "modernbert"),
        *("albert", "nomicbert", "roformer", "esm", "mpnet", "modernbertdecoder"),
    ),
    "vit": ("vit", "dinov2", "dinov3", "beit", "deit"),
    "towers": ("clip", "owlv2", "owlvit", "siglip", "siglip2towers", "chineseclip"),
    "t5": ("t5", "mt5", "umt5"),
    "bart": ("bart", "whisper", "biogpt", "opt", "xglm", "pegasus", "wav2vec2"),
    "diffusion": ("dit", "sd3", "flux", "pixart", "lumina"),
    "mamba": ("mamba", "mamba2", "falconmamba", "bamba", "zamba", "zamba2", "nemotronh", "jamba"),
    "deepseek": ("deepseekv2", "glm4moelite", "longcatflash", "kimilinear", "youtu"),
    "gpt": (
        *("gpt2", "gptneo", "gptj", "codegen", "gptbigcode", "gptneox", "starcoder2", "bloom"),
        *("openaigpt", "ctrl"),
    ),
    "phi": ("phi", "phi3", "phimoe"),
    "gemma": ("gemma", "gemma2", "gemma3", "gemma3n", "recurrentgemma", "vaultgemma"),
    "granite": ("granite", "granitemoe", "granitemoehybrid", "granitemoeshared"),
    "olmo": ("olmo", "olmo2", "olmo3", "olmoe", "olmohybrid", "flexolmo"),
    "qwen": ("qwen2", "qwen2moe", "qwen3", "qwen35"),
    "cohere": ("cohere", "cohere2", "cohere2moe"),
    "glm": ("glm", "glm4", "glm4moe", "solaropen"),
    "falcon": ("falcon", "falconh1"),
    "mistral": ("mistral", "ministral", "mixtral", "minimax", "minimaxm2"),
    "ernie": ("ernie45", "ernie45moe"),
    "exaone": ("exaone4", "exaonemoe"),
    "hunyuan": ("hunyuan", "hunyuanmoe", "hyv3"),
    "lfm2": ("lfm2", "lfm2moe"),
    "nemotron": ("nemotron", "arcee"),
}
"""Architectures that share much of their code; all others are alone."""


PUBLISHED = frozenset(("mix: norm q_a_kv_a norm q_b kv_b mix kv_b o_proj",))
"""Patterns of engines, by tables of their kernels that state the roles: absorbed latent attention
(DeepSeek-V3 with DeepGEMM and DeepEP)."""


def family_of(name: str) -> str:
    """The family of a recording, by the name of its file."""
    plain = name.partition("-")[0]
    return next((family for family, names in FAMILIES.items() if plain in names), plain)


class Judged(NamedTuple):
    """All claims about one architecture, by variant or by change."""

    claims: dict[str, Counter[Claims]]
    """Time by what was claimed."""
    time: dict[str, int]


Recordings = dict[str, dict[str, list[RecordedPass]]]


class replaced:  # noqa: N801 - reads as a statement
    """Replace a function of a module for a while."""

    def __init__(self, module: Any, **functions: Any) -> None:
        self.module, self.functions = module, functions

    def __enter__(self) -> None:
        self.before = {name: vars(self.module)[name] for name in self.functions}
        vars(self.module).update(self.functions)

    def __exit__(self, *_: object) -> None:
        vars(self.module).update(self.before)


def patterns_of(passes: Sequence[RecordedPass]) -> set[str]:
    """Patterns of the parts of all layers whose roles are right, and whose bounds are."""
    out: set[str] = set()
    for given in passes:
        parts = units([kernel.letter for kernel in given.kernels])
        text = "".join(unit.letter for unit in parts)
        found = find_layers(parts)
        if not found or not given.time:
            continue
        models = stack_models(text, found)
        shapes = [given.kernels[unit.start].product for unit in parts]
        for number, layer in enumerate(found):
            named = layer_roles(text, layer, shapes, cached=models[layer.stack] == "decoder")
            wrong = 0
            for unit, role in zip(parts[layer.start : layer.end], named, strict=True):
                for kernel in given.kernels[unit.start : unit.end]:
                    fits = kernel.role is None or role.role == "other" or role.role in kernel.role
                    wrong += kernel.time * (not fits or kernel.layer != number)
            whole = sum(
                kernel.time
                for unit in parts[layer.start : layer.end]
                for kernel in given.kernels[unit.start : unit.end]
            )
            if wrong <= MOST_WRONG * whole:
                out.update(patterns.parts_of(text, layer, named))
    return out


MOST_WRONG = 0.05
"""Share of the time of a layer whose interpretation still counts as right."""


def judged(
    recorded: dict[str, list[RecordedPass]], known: frozenset[str], *, changed: bool = True
) -> Judged:
    """Claims about the passes of an architecture, by an interpreter that knows these patterns."""
    claims: dict[str, Counter[Claims]] = defaultdict(Counter)
    time: dict[str, int] = defaultdict(int)
    with replaced(patterns, known_patterns=lambda: known):
        for variant, every in recorded.items():
            passes = distinct(every)
            for given in passes:
                claims[variant].update(judge(given))
                time[variant] += given.time
            with replaced(layers, align=lambda text, mixers: None):  # noqa: ARG005
                # As where nothing repeats.
                for given in passes:
                    claims[f"{variant} by landmarks"].update(judge(given))
                    time[f"{variant} by landmarks"] += given.time
            for change, given in stressed(passes[:1]) if changed else ():
                claims[f"{variant}: {change}"].update(judge(given))
                time[f"{variant}: {change}"] += given.time
    return Judged(dict(claims), dict(time))


def distinct(passes: Sequence[RecordedPass]) -> list[RecordedPass]:
    """Passes whose kernels differ in order, the shortest first: decode, then prefill."""
    found = {tuple(k.letter for k in given.kernels): given for given in passes if given.time}
    return sorted(found.values(), key=lambda given: len(given.kernels))


Key = tuple[str, str]
Shares = dict[Key, dict[str, tuple[float, float]]]
"""By subject and evidence: for each architecture how much it counts, and the share of its time
that was right."""


def shares(by_name: dict[str, Judged]) -> Shares:
    """How often each evidence was right in each architecture, changed ones counted as unusual."""
    out: Shares = defaultdict(dict)
    for name, made in by_name.items():
        total: dict[Key, float] = defaultdict(float)
        usual: set[Key] = set()
        right: dict[Key, float] = defaultdict(float)
        changes = sum(": " in variant for variant in made.claims)
        for variant, claims in made.claims.items():
            weight = UNUSUAL / changes if ": " in variant else 1 - UNUSUAL
            for said, spent in claims.items():
                time = weight * spent / max(made.time[variant], 1)
                for key, fits in _keys(said):
                    total[key] += time
                    right[key] += time * fits
                    if ": " not in variant:
                        usual.add(key)
        for key, time in total.items():
            if time > LEAST_TIME:
                # Evidence that only changed passes have is that of no architecture.
                out[key][name] = 1 if key in usual else UNUSUAL, right[key] / time
    return out


def _keys(said: Claims) -> Iterator[tuple[Key, bool]]:
    """Subject and evidence of each claim, and whether it is right."""
    for claim in said.claims:
        every = [claim.evidence] if claim.subject == "layer" else _with_pool(claim.evidence)
        for evidence in every:
            yield (claim.subject, evidence), claim.right
            if said.agrees and claim.subject != "role":
                # The same with a config at hand, which states what modules show.
                yield (claim.subject, evidence + AGREED), claim.right


def _with_pool(evidence: str) -> list[str]:
    return [evidence, pool_of(evidence)]


LEAST_TIME = 1e-6
"""Evidence of a smaller share of an architecture's time does not count."""


def as_toml(found: Shares, known: frozenset[str], names: int) -> str:
    """The table that the package reads."""
    lines = [
        f"# Measured on {names} architectures by scripts/calibrate_layers.py; do not edit.",
        "patterns = [",
        *(f'    "{pattern}",' for pattern in sorted(known)),
        "]",
    ]
    for subject in SUBJECTS:
        for (kind, evidence), rows in sorted(found.items()):
            if kind == subject:
                lines.append(f'\n[{subject}."{evidence}"]')
                lines.append(f"architectures = {sum(n for n, _ in rows.values()):.4f}")
                lines.append(f"right = {sum(n * share for n, share in rows.values()):.4f}")
    return "\n".join(lines) + "\n"


def without(found: Shares, name: str) -> dict[Key, float]:
    """Confidence by a table that was made without the family of an architecture."""
    family = family_of(name)
    others: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for (subject, evidence), rows in found.items():
        rest = [row for other, row in rows.items() if family_of(other) != family]
        if rest:
            right = sum(n * share for n, share in rest)
            others[subject][evidence] = right, sum(n for n, _ in rest)
    return {
        (subject, evidence): sure
        for subject, rows in others.items()
        for evidence, sure in confidences(rows, subject).items()
    }


def told(made: Judged, table: dict[Key, float], subject: str, variant: str) -> Iterator[_Told]:
    """Confidence, whether right, and time of what is said about one or several subjects."""
    for said, time in made.claims.get(variant, {}).items():
        about = said.about(*subject.split(" and "))
        if about:
            sure = min(table.get((c.subject, c.evidence), UNSEEN) for c in about)
            yield sure, all(c.right for c in about), time


_Told = tuple[float, bool, int]


def reliability(by_name: dict[str, Judged], tables: dict[str, dict[Key, float]]) -> Iterator[Point]:
    """What was said and what was right, each architecture by a table without its family."""
    for subject in (*SUBJECTS, "layer and role"):
        said = [[0.0, 0.0, 0.0] for _ in BINS[1:]]
        for name, made in by_name.items():
            whole = made.time["stripped"]
            for claimed, right, time in told(made, tables[name], subject, "stripped"):
                at = next(i for i, high in enumerate(BINS[1:]) if claimed < high)
                share = time / whole / len(by_name)
                said[at][0] += share
                said[at][1] += right * share
                said[at][2] += claimed * share
        for (share, good, sure), low, high in zip(said, BINS, BINS[1:], strict=False):
            if share > 0:
                yield Point(subject, low, min(high, 1), share, sure / share, good / share)


def scores(by_name: dict[str, Judged], tables: dict[str, dict[Key, float]]) -> Iterator[str]:
    """Markdown: means over architectures."""
    for variant in VARIANTS:
        rows = [
            score
            for name, made in by_name.items()
            if (score := _score(made, tables[name], variant)) is not None
        ]
        cells = " | ".join(f"{100 * _mean(values):.1f}" for values in zip(*rows, strict=True))
        yield f"| {variant} | {len(rows)} | {cells} |"


def each(by_name: dict[str, Judged], tables: dict[str, dict[Key, float]]) -> Iterator[str]:
    """Markdown: the scores of each architecture."""
    for name, made in by_name.items():
        for variant in VARIANTS:
            score = _score(made, tables[name], variant)
            if score is not None:
                yield f"| {name} {variant} | {' | '.join(f'{100 * x:.1f}' for x in score)} |"


def changes(by_name: dict[str, Judged], tables: dict[str, dict[Key, float]]) -> Iterator[str]:
    """Markdown: by change, called sure and wrong although sure, as means over architectures."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, made in by_name.items():
        for variant in made.claims:
            score = _score(made, tables[name], variant) if ": " in variant else None
            if score is not None:
                found[variant.partition(": ")[2]].append((score[4], score[3]))
    for change, rows in found.items():
        sure, wrong = (_mean(values) for values in zip(*rows, strict=True))
        yield f"| {change} | {len(rows)} | {100 * sure:.1f} | {100 * wrong:.1f} |"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _score(
    made: Judged, table: dict[Key, float], variant: str
) -> tuple[float, float, float, float, float] | None:
    """Shares of time: layer, role and heavy role right; wrong when sure; sure."""
    claims, whole = made.claims.get(variant), made.time.get(variant)
    if not claims or not whole:
        return None
    rates = []
    for subject, heavy in (("layer", False), ("role", False), ("role", True)):
        asked = [
            (claim.right, time)
            for said, time in claims.items()
            for claim in said.about(subject)
            if said.heavy or not heavy
        ]
        time = sum(time for _, time in asked)
        rates.append(sum(time for right, time in asked if right) / time if time else 1.0)
    sure = [x for x in told(made, table, "layer and role", variant) if x[0] >= SURE]
    wrong = sum(time for _, right, time in sure if not right)
    return rates[0], rates[1], rates[2], wrong / whole, sum(x[2] for x in sure) / whole


def read(folders: Sequence[Path], cache: Path | None) -> Recordings:
    """The recordings of all folders; one whose truth cannot be read is reported."""
    out: Recordings = {}
    for folder in folders:
        for name in names_in(folder):
            try:
                out[name] = kept(folder, name, cache)
            except (LookupError, ValueError, StopIteration) as error:
                print(f"{name}: the truth cannot be read: {error!r}")
    return out


def score_unseen(recordings: Recordings) -> None:
    """Print the scores of recordings that the package's table was not made from."""
    table = {(s, evidence): sure for s in SUBJECTS for evidence, sure in measured()[s].items()}
    by_name = {
        name: judged(passes, patterns.known_patterns(), changed=False)
        for name, passes in recordings.items()
    }
    tables = dict.fromkeys(by_name, table)
    print("\n".join([*each(by_name, tables), *scores(by_name, tables)]))


def main() -> None:
    """Judge all recordings; print, write and draw what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--curve", type=Path)
    parser.add_argument("--score", action="store_true")
    args = parser.parse_args()
    recordings = read(args.folders, args.cache)
    if args.score:
        score_unseen(recordings)
        return
    seen = {name: set().union(*map(patterns_of, p.values())) for name, p in recordings.items()}
    by_name = {
        name: judged(
            passes,
            frozenset().union(*(seen[n] for n in seen if family_of(n) != family_of(name))),
        )
        for name, passes in recordings.items()
    }
    found = shares(by_name)
    if args.write:
        known = PUBLISHED.union(*seen.values())
        TARGET.write_text(as_toml(found, known, len(by_name)), encoding="utf-8")
    tables = {name: without(found, name) for name in by_name}
    points = list(reliability(by_name, tables))
    if args.report:
        print("\n".join(point.as_row() for point in points))
        print("\n".join([*each(by_name, tables), *scores(by_name, tables)]))
        print("\n".join(changes(by_name, tables)))
    if args.curve is not None:
        args.curve.write_text(draw(points), encoding="utf-8")


if __name__ == "__main__":
    main()
