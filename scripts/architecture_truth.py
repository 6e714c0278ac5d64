"""What each kernel of a recorded architecture is for, by the modules in its Python stacks.

A kernel is traced to its launch by correlation and from there to the Python frames that were open
on the launching thread. Which class of module is a layer, attention, a feed-forward part and so on
was written down by hand from the module trees of the models: nothing here is taken from
`solscope.attribution`, which is what the truth is for.

Each activity has a set of accepted roles. There are several where a kernel does two things, or
where its module does not say which; `None` means that nothing can be said.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_LAYER = re.compile(
    r"(DecoderLayer|EncoderLayer|NeoXLayer|BertLayer|RobertaLayer|ElectraLayer|"
    r"DebertaV2Layer|ViTLayer|ViTNestLayer|Dinov2Layer|DINOv3ViTLayer|BeitLayer|TransformerBlock|"
    r"AlbertLayer|RoFormerLayer|CLIPTextLayer|CLIPVisionLayer|EsmLayer|DeiTLayer|MPNetLayer|"
    r"(?<!Moe)(?<!MoE)(?<!Attn)(?<!Recurrent)Block)_\d+$"
)
"""Layers, by the class of the outermost such module."""
_MIXER = re.compile(
    r"(MambaLayer|MambaMixer|Mamba2Mixer|Mixer|ShortConv|RecurrentBlock|LightningAttention|"
    r"GatedDeltaNet|DeltaAttention)_\d+$"
)
_ATTENTION = re.compile(r"(Attention|SelfAttn|CrossAttention|AttentionBlock|MLA)_\d+$")
_FEED = re.compile(
    r"(MLP|Mlp|FFN|FeedForward|LayerFF|SwiGLUFFN|Intermediate|Output|MoE|Moe|MoeBlock|MoEBlock|MOE)_\d+$"
)
_LINEAR = re.compile(r"(Linear|Conv1D)_\d+$")
_NORM = re.compile(r"Norm\w*_\d+$")
_PRODUCT = re.compile(
    r"nvjet|gemm|gemv|splitK|GroupProblemShape|device_kern|cutlass", re.IGNORECASE
)
_MLA_CLASSES = re.compile(r"(DeepseekV\d|Glm4MoeLite|MiniCPM3|LongcatFlash|KimiLinear|Youtu)")
_BESIDE = re.compile(r"LaurelBlock_\d+$")
"""Blocks of a layer that are neither attention nor its feed-forward part; no role names them."""
_MLA_ROLES = {
    # Linear layers of latent attention in the order of their first call.
    5: ("q_a_kv_a", "q_b", "q_a_kv_a", "kv_b", "o_proj"),
    4: ("qkv q_b q_a_kv_a", "q_a_kv_a", "kv_b", "o_proj"),
}
ANY_MIXING = "qkv rope qk_norm attention other"


class Activity(NamedTuple):
    """One GPU activity and what was open at its launch."""

    start: float
    duration: float
    name: str
    correlation: int | None
    launched: float
    modules: tuple[str, ...]
    function: str
    """The innermost Python function, as `file.py:name`."""
    call: float
    """When the outermost layer around it was called; what each call of a shared layer has alone."""


PACKED = (".json.zst", ".json.gz")
"""Recordings of the repository are packed with zstd, others as they were recorded."""


def names_in(folder: Path) -> list[str]:
    """The architectures whose recordings a folder has."""
    ends = tuple(f".stack{end}" for end in PACKED)
    files = (file.name for file in folder.iterdir() if file.name.endswith(ends))
    return sorted({name.rpartition(".stack.")[0] for name in files})


def recording_of(folder: Path, name: str, variant: str) -> Path | None:
    """The file with one recording (`stack`, `twin`, `graph`) of an architecture."""
    files = (folder / f"{name}.{variant}{end}" for end in PACKED)
    return next((file for file in files if file.exists()), None)


def load(path: Path) -> dict[str, Any]:
    """The JSON of a trace."""
    if path.suffix == ".zst":
        with zstandard.open(path) as packed:
            return json.load(packed)  # type: ignore[no-any-return]
    with gzip.open(path) as zipped:
        return json.load(zipped)  # type: ignore[no-any-return]


def without_stacks(document: dict[str, Any], path: Path) -> Path:
    """Write the trace without Python frames."""
    events = [e for e in document["traceEvents"] if e.get("cat") != "python_function"]
    with gzip.open(path, "wt", compresslevel=1) as packed:
        json.dump({**document, "traceEvents": events}, packed)
    return path


def activities(document: dict[str, Any]) -> list[Activity]:
    """GPU activities in file order."""
    events = document["traceEvents"]
    launches: dict[int, Any] = {}
    frames: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for event in events:
        kind, correlation = event.get("cat"), event.get("args", {}).get("correlation")
        if kind in ("cuda_runtime", "cuda_driver") and correlation is not None:
            launches.setdefault(correlation, event)
        elif kind == "python_function" and event.get("ph") == "X":
            frames[event["pid"], event["tid"]].append(event)
    stacks = _stacks(launches, frames)
    out = []
    for event in events:
        if event.get("cat") not in GPU or event.get("ph") != "X":
            continue
        correlation = event["args"].get("correlation")
        frames_open = stacks.get(correlation, [])
        names = [frame["name"] for frame in frames_open]
        launched = launches[correlation]["ts"] if correlation in launches else event["ts"]
        modules = tuple(n[len("nn.Module: ") :] for n in names if n.startswith("nn.Module: "))
        function = next((_function(n) for n in reversed(names) if _is_function(n)), "")
        out.append(
            Activity(
                *(event["ts"], event["dur"], event["name"], correlation),
                *(launched, modules, function),
                next((f["ts"] for f in frames_open if _LAYER.search(f["name"])), -1),
            )
        )
    return out


def _stacks(launches: dict[int, Any], frames: dict[tuple[int, int], list[Any]]) -> dict[int, Any]:
    """The frames that were open at each launch, outermost first."""
    asked: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for correlation, event in launches.items():
        asked[event["pid"], event["tid"]].append((event["ts"], correlation))
    out = {}
    for thread, questions in asked.items():
        waiting = sorted(frames.get(thread, []), key=lambda e: (e["ts"], -e["dur"]))
        stack: list[Any] = []
        entered = 0
        for time, correlation in sorted(questions):
            while entered < len(waiting) and waiting[entered]["ts"] <= time:
                stack.append(waiting[entered])
                entered += 1
            stack = [frame for frame in stack if frame["ts"] + frame["dur"] >= time]
            out[correlation] = list(stack)
    return out


def _is_function(name: str) -> bool:
    skipped = ("nn.Module", "torch/nn/modules/module.py", "<built")
    return not name.startswith(skipped) and "contextlib" not in name


def _function(name: str) -> str:
    return re.sub(r".*?([^/]*\.py)\(\d+\): ", r"\1:", name)


class Truth:
    """Layer, place, kind and accepted roles of each activity."""

    def __init__(self, recorded: Sequence[Activity]) -> None:
        self.recorded = recorded
        self.by_launch = sorted(range(len(recorded)), key=lambda i: recorded[i].launched)
        self.order = sorted(range(len(recorded)), key=lambda i: recorded[i].start)
        self.layer = self._layers()
        self.passes = self._passes()
        self.place = self._places()
        self.linears = self._linears()
        self.role: list[frozenset[str] | None] = [None] * len(recorded)
        self.kind: dict[int, tuple[str, str]] = {}
        self._judge()

    def _layers(self) -> list[int | None]:
        """The layer of each activity: by the path of its module, numbered by first use.

        A shared layer that runs under two parents is two layers of the model, and so is each call
        of the only layer that a model has.
        """
        paths = {i: path for i in self.by_launch if (path := self._layer_path(self.recorded[i]))}
        if len(set(paths.values())) == 1:
            return self._shared_layers()
        number = {path: at for at, path in enumerate(dict.fromkeys(paths.values()))}
        return [number.get(paths.get(i, ())) for i in range(len(self.recorded))]

    def _shared_layers(self) -> list[int | None]:
        """Calls of the only layer, counted from the embedding on."""
        out: list[int | None] = [None] * len(self.recorded)
        called: dict[float, int] = {}
        for i in self.by_launch:
            activity = self.recorded[i]
            if activity.call >= 0:
                out[i] = called.setdefault(activity.call, len(called))
            elif any("Embedding" in module for module in activity.modules):
                called = {}
        return out

    @staticmethod
    def _layer_path(activity: Activity) -> tuple[str, ...] | None:
        """The modules down to the outermost layer."""
        found = (at for at, name in enumerate(activity.modules) if _LAYER.search(name))
        at = next(found, None)
        return None if at is None else activity.modules[: at + 1]

    def _passes(self) -> list[int]:
        """Runs through the model: a new one begins where the first layer runs again."""
        out, number, highest = [0] * len(self.recorded), 0, -1
        for i in self.by_launch:
            layer = self.layer[i]
            if layer == 0 and highest > 0:
                number, highest = number + 1, 0
            highest = max(highest, -1 if layer is None else layer)
            out[i] = number
        return out

    def _places(self) -> list[str]:
        """Prologue before the first layer of a pass, epilogue after the last, else `between`."""
        first, last = {}, {}
        inside = [i for i in self.order if self.layer[i] is not None]
        for i in inside:
            first.setdefault(self.passes[i], self.recorded[i].start)
            last[self.passes[i]] = self.recorded[i].start
        out = []
        for i, activity in enumerate(self.recorded):
            if self.layer[i] is not None:
                out.append("layer")
                continue
            # What is launched between two passes is the end of one or the beginning of the next.
            after = [p for p, time in last.items() if time <= activity.start]
            before = [p for p, time in first.items() if time > activity.start]
            embeds = any("Embed" in module for module in activity.modules)
            if any(first[p] < activity.start < last[p] for p in first):
                out.append("between")
            elif before and (not after or embeds):
                out.append("prologue")
            else:
                out.append("epilogue" if not before else "epilogue prologue")
        return out

    def _linears(self) -> dict[str, list[str]]:
        """Linear modules below each module, in order of first use."""
        out: dict[str, list[str]] = defaultdict(list)
        for i in self.by_launch:
            modules = self.recorded[i].modules
            for at, name in enumerate(modules):
                if _LINEAR.search(name):
                    for above in modules[:at]:
                        if name not in out[above]:
                            out[above].append(name)
        return out

    def _judge(self) -> None:
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i in self.by_launch:
            layer = self.layer[i]
            if layer is not None:
                groups[self.passes[i], layer].append(i)
            else:
                self.role[i] = _accepted(self._outside(i))
        for (_, layer), rows in groups.items():
            self.kind[layer] = self._inside(rows)

    def _outside(self, i: int) -> str | None:
        activity = self.recorded[i]
        text = "/".join(activity.modules)
        if self.place[i] == "between":
            return None
        if "prologue" in self.place[i].split():
            if "Embedding" in text and "Rotary" not in text:
                exact = activity.function.endswith("embedding") and "Positional" not in text
                return "embedding" if exact else "embedding other"
            if self.place[i] == "prologue":
                return "other rope embedding input_norm"
            return None
        if "Norm" in text:
            return "final_norm"
        if activity.modules and _LINEAR.search(activity.modules[-1]):
            return "lm_head"
        return "sampler" if "ArgMax" in activity.name else "lm_head sampler other final_norm"

    def _inside(self, rows: list[int]) -> tuple[str, str]:
        """Judge one layer of one pass; its mixers and the kind of its feed-forward part."""
        layer = _LayerTruth(self, rows)
        for i in rows:
            self.role[i] = _accepted(layer.role(i))
        return layer.kind()


def _accepted(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(text.split())


class _LayerTruth:
    """The roles of one layer; activities are asked for in the order of their launch."""

    def __init__(self, truth: Truth, rows: list[int]) -> None:
        self.truth = truth
        self.rows = rows
        self.paths = {i: self._path(i) for i in rows}
        self.sections = [self._section(self.paths[i]) for i in rows]
        self.turn = {i: at for at, i in enumerate(rows)}
        self.moe = any(_is_experts(self.paths[i]) for i in rows if self._section_of(i) == "feed")
        self.modulated = any("Modulation" in name for i in rows for name in self.paths[i])
        self.expert_products = 0
        self.attended = False
        self.attending: set[str] = set()
        """Modules of attention that have attended."""
        self.projected = False
        """The output projection of attention, or the down projection, has run."""

    def _path(self, i: int) -> tuple[str, ...]:
        modules = self.truth.recorded[i].modules
        at = next(at for at, name in enumerate(modules) if _LAYER.search(name))
        return modules[at + 1 :]

    @staticmethod
    def _section(path: tuple[str, ...]) -> str:
        if not path:
            return "residual"
        for name in path:
            if _MIXER.search(name):
                return "mixer"
            if _ATTENTION.search(name):
                return "attention"
            if re.search(r"(NormAttentionNorm|LayerSelfAttention|LayerCrossAttention)_\d+$", name):
                continue
            if _BESIDE.search(name):
                return "beside"
            if _FEED.search(name) and not re.search(r"(Self|Cross)Output_\d+$", name):
                return "feed"
        if any(_NORM.search(name) for name in path):
            return "norm"
        if any(_LINEAR.search(name) or "Activation" in name or "ReLU" in name for name in path):
            return "feed"
        return "residual"

    def _section_of(self, i: int) -> str:
        return (
            self.sections[self.turn[i]] if hasattr(self, "turn") else self._section(self._path(i))
        )

    def kind(self) -> tuple[str, str]:
        mixers = {"mixer": "linear_attention", "attention": "attention"}
        mixed = "+".join(sorted({mixers[s] for s in self.sections if s in mixers})) or "none"
        feed = "moe" if self.moe else "dense" if "feed" in self.sections else "none"
        return mixed, feed

    def role(self, i: int) -> str | None:
        section = self.sections[self.turn[i]]
        if section == "beside" or self._is_spare(i):
            return None
        function = self.truth.recorded[i].function
        if "Modulation" in "/".join(self.paths[i]) or function.endswith(":_modulate"):
            return "modulation"
        if section in ("attention", "mixer"):
            return self._attention(i) if section == "attention" else self._mixer(i)
        if section == "norm":
            return "input_norm post_norm qk_norm" if self._mixes_itself() else self._norm(i)
        if section == "residual" and self._mixes_itself():
            return self._unnamed(function)
        if section == "residual":
            name = self.truth.recorded[i].name
            if self.modulated and re.search(r"MulFunctor|FunctorOn\w+_add", name):
                return "modulation residual"  # the scale of a norm, written out
            scaled = "AUnaryFunctor" in name
            return "residual o_proj qkv gating down other" if scaled else "residual"
        return self._experts(i) if self.moe else self._dense(i)

    def _is_spare(self, i: int) -> bool:
        """A linear module of the layer itself, where attention and feed-forward part have modules.

        What it is for, mixing several residual streams say, has no role.
        """
        path = self.paths[i]
        whole = {
            section
            for row, section in zip(self.rows, self.sections, strict=True)
            if len(self.paths[row]) > 1
        }
        return len(path) == 1 and bool(_LINEAR.search(path[0])) and {"attention", "feed"} <= whole

    def _outer(self, i: int, pattern: re.Pattern[str]) -> str:
        return next(name for name in self.paths[i] if pattern.search(name))

    def _linear_role(self, i: int, outer: str) -> str:
        order = self.truth.linears[outer]
        leaf = next(name for name in reversed(self.paths[i]) if _LINEAR.search(name))
        if _MLA_CLASSES.match(outer) and len(order) in _MLA_ROLES:
            return _MLA_ROLES[len(order)][order.index(leaf)]
        # Text and image may have an output projection each, behind one attention.
        return "o_proj" if leaf == order[-1] or outer in self.attending else "qkv"

    def _attention(self, i: int) -> str | None:
        activity, path = self.truth.recorded[i], self.paths[i]
        leaf, function, name = path[-1], activity.function, activity.name
        outer = self._outer(i, _ATTENTION)
        if re.search(r"(Gating|Experts)_\d+$", "/".join(path)):
            return None  # attention with experts: no role says what their kernels do
        if _LINEAR.search(leaf):
            role = self._linear_role(i, outer)
            self.projected = role == "o_proj"
            return role
        if _NORM.search(leaf):
            if re.search(r"(Output|LayerSelfAttention|LayerCrossAttention)_\d+$", path[-2]):
                return self._norm(i)
            return self._norm_of_attention(i, outer)
        if re.search(r"rotary|rotate_half|rotate_every", function):
            return "rope"
        if "lazy_init" in function:
            return None
        if function.startswith("cache_utils"):
            return "kv_write"
        if re.search(r"attention_forward|repeat_kv|softmax|sdpa|_attn$|:_attend$", function):
            core = re.search(r"flash|fmha|sdpa|attention|softmax", name, re.IGNORECASE)
            self.attended = self.attended or bool(core)
            if core:
                self.attending.add(outer)
            copied = self.attended and re.search("copy|elementwise", name)
            return "attention attention_combine" + (" o_proj" if copied else "")
        if re.search(r"Output_\d+$", "/".join(path)):
            return "residual o_proj"
        if re.search(r"\d{0,4}softmax|Softmax", name) or _PRODUCT.search(name):
            return "attention kv_b" if _MLA_CLASSES.match(outer) else "attention"
        if self.projected:
            return "residual o_proj"
        return ANY_MIXING + " attention_combine o_proj kv_write gating"

    def _norm_of_attention(self, i: int, outer: str) -> str:
        """A norm in the module of attention: before its projections, behind them, or of q and k."""
        linear = [
            self.turn[row]
            for row in self.rows
            if outer in self.paths[row] and any(_LINEAR.search(m) for m in self.paths[row])
        ]
        if not linear or linear[0] < self.turn[i] < linear[-1]:
            return "qk_norm"
        return "input_norm" if self.turn[i] < linear[0] else "post_norm"

    def _mixer(self, i: int) -> str | None:
        activity, path = self.truth.recorded[i], self.paths[i]
        leaf, function = path[-1], activity.function
        outer = self._outer(i, _MIXER)
        if _LINEAR.search(leaf):
            return self._linear_role(i, outer)
        if "NormGated" in leaf or (leaf == outer and function.endswith("silu")):
            return "gating qk_norm"
        if _NORM.search(leaf):
            return "gating qk_norm"
        if "lazy_init" in function:
            return None
        if "conv" in function or re.search(r"SiLU|Conv1d", leaf):
            return "conv" if "Conv1d" in leaf or "conv" in function else "conv gating"
        if re.search(r"scan|segment_sum|state_update|recurrent|pad$", function):
            return "delta_rule gating"
        return "gating delta_rule conv qkv o_proj other attention kv_write"

    def _norm(self, i: int) -> str:
        """A norm by what stands around it: before the mixer, or after it."""
        at = self.turn[i]
        mixing = [k for k, s in enumerate(self.sections) if s in ("attention", "mixer")]
        feeding = [k for k, s in enumerate(self.sections) if s == "feed"]
        path = "/".join(self.paths[i])
        if re.search(r"Output_\d+/", path):
            return "post_norm"  # BERT: behind the addition
        if mixing and at < mixing[0]:
            return "input_norm"
        if not mixing or re.search(r"LayerCrossAttention", path):
            return "post_norm input_norm"
        if "LayerSelfAttention" in path:
            return "input_norm"
        if mixing[0] < at < mixing[-1]:
            return "post_norm input_norm"  # before a second attention
        if feeding and at > feeding[-1]:
            return "post_norm residual other"
        return "post_norm"

    def _experts(self, i: int) -> str | None:
        activity, path = self.truth.recorded[i], self.paths[i]
        name = activity.name
        if any(re.search(r"(Router|Gating)_\d+$", m) for m in path):
            return "router" if _PRODUCT.search(name) else "router topk dispatch"
        if _is_experts(path):
            return self._expert(i)
        if len(path) > 1 and any(_FEED.search(m) for m in path[1:]):
            return "shared_expert"
        if any(re.search(r"MLP_\d+$", m) for m in path):
            # Beside the module of the experts: shared by all tokens, or a dense part of its own.
            return "shared_expert up_gate activation down"
        if _LINEAR.search(path[-1]):
            return "router shared_expert"
        if any(_NORM.search(m) for m in path):
            return self._norm(i)
        before = self.expert_products == 0
        return (
            "dispatch topk router" if before else "combine residual shared_expert down activation"
        )

    def _expert(self, i: int) -> str | None:
        """Inside the module of the experts: products alternate between up and down."""
        activity, path = self.truth.recorded[i], self.paths[i]
        name = activity.name
        prepares = "prepare_grouped" in name or name.startswith("Memset")
        if "Activation" in path[-1] or activity.function.endswith("_apply_gate"):
            return "activation"
        looped = self._looped()
        if not prepares and _PRODUCT.search(name) and "splitKreduce" not in name:
            self.expert_products += 1
            if looped:
                return "up_gate down"
            return "up_gate" if self.expert_products == 1 else "down"
        if looped:
            return "up_gate down activation dispatch combine topk"
        if prepares:
            return "up_gate dispatch" if self.expert_products == 0 else "down dispatch"
        if self.expert_products == 0:
            return "dispatch topk"
        if self.expert_products == 1:
            grouped = re.search("grouped_mm_experts|grouped_linear", activity.function)
            return "up_gate activation dispatch" if grouped else "activation up_gate"
        return "combine down"

    def _looped(self) -> bool:
        """Experts one after another: more products than up and down."""
        rows = [i for i in self.rows if _is_experts(self.paths[i])]
        names = [self.truth.recorded[i].name for i in rows]
        products = [n for n in names if _PRODUCT.search(n) and "splitKreduce" not in n]
        return sum("prepare_grouped" not in n for n in products) > 2

    @staticmethod
    def _unnamed(function: str) -> str:
        """What a layer computes without a module."""
        if function.endswith((":_rotated", "_rotary")):
            return "rope"
        if function.endswith((":_attend", ":_heads")):
            return "attention"
        return "residual activation attention o_proj down"

    def _mixes_itself(self) -> bool:
        """The layer calls attention without a module for it, beside its feed-forward part."""
        names = [self.truth.recorded[i].name for i in self.rows]
        return "attention" not in self.sections and any("sdpa" in name for name in names)

    def _dense(self, i: int) -> str | None:
        path = self.paths[i]
        if any(_NORM.search(m) for m in path):
            inside = len(path) > 1 and not re.search(r"(Output|LayerFF)_\d+$", path[-2])
            return self._norm(i) + (" activation" if inside else "")
        linears = [
            name
            for row in self.rows
            if self.sections[self.turn[row]] == "feed"
            for name in self.paths[row]
            if _LINEAR.search(name)
        ]
        if any(_LINEAR.search(m) for m in path):
            leaf = next(m for m in reversed(path) if _LINEAR.search(m))
            # Text and image may have a feed-forward part each.
            own = [m for m in self.truth.linears.get(path[0], ()) if m in linears]
            self.projected = leaf == (own if len(own) > 1 else linears)[-1]
            if self._mixes_itself():
                return "o_proj down" if self.projected else "qkv up_gate"
            return "down" if self.projected else "up_gate"
        if self.projected and "Activation" not in path[-1]:
            return "residual"
        if re.search(r"(Output|LayerFF|FeedForward)_\d+$", path[-1]):
            return "residual activation"
        return "activation"


def _is_experts(path: Iterable[str]) -> bool:
    return any(re.search(r"(Experts?|ExpertGLU)_\d+$", name) for name in path)


def source_of_replays(document: dict[str, Any], twin: Truth) -> list[int | None]:
    """For each activity of a graph file its position in the twin; None for what is no replay."""
    replayed = activities(document)
    by_launch: dict[int | None, list[int]] = defaultdict(list)
    for i, activity in enumerate(replayed):
        by_launch[activity.correlation].append(i)
    source: list[int | None] = [None] * len(replayed)
    for rows in by_launch.values():
        ordered = sorted(rows, key=lambda i: replayed[i].start)
        names = [replayed[i].name for i in ordered]
        if len(rows) > 20 and names == [twin.recorded[i].name for i in twin.order]:
            for own, other in zip(ordered, twin.order, strict=True):
                source[own] = other
    return source
