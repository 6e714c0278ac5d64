"""Kernel names: from what a profiler records to what a person reads.

Names come from strangers' files: nothing here raises, and the work is linear in the length read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from solscope.patterns import lazy_pattern

MAX_MANGLED = 4096
"""Longer mangled names stay as they are."""
MAX_REFERENCES = 32
"""A mangled name with more back references stays as it is: each can double the demangled text, so a
few hundred bytes could otherwise ask for gigabytes. At 32 the worst case is about 100 MB."""
MAX_READ = 4096
"""Only this many characters of a name are used; the rest is not needed to distinguish kernels."""
DEMANGLED_BUDGET = 1 << 24
"""Characters that demangling may produce in one process, whatever the names ask for."""
OPAQUE = frozenset(("vllm::moe_forward", "vllm::moe_forward_shared"))
"""Operators that read their weights inside: the tensors of inner operators count as theirs."""

_SUFFIX = lazy_pattern(r"(?:\s?\[clone [^\[\]]*\]|\.kd)+$")
_REFERENCE = lazy_pattern(r"[ST][0-9A-Z]*_")
_MEMORY_NAME = lazy_pattern(r"(?i)\[?(?:cuda |hip )?mem(?:cpy|set)\b")
# Anonymous and versioned inline namespaces: the same kernel has others in the next build.
_NAMELESS = lazy_pattern(
    r"(?:\(anonymous namespace\)|<unnamed>|\{anonymous\}|_GLOBAL__N_1|at_cuda_detail"
    r"|(?:ROCPRIM|THRUST|CUB)_\w*?NS)::"
)
# Symbols after `operator` would be taken for brackets.
_OPERATOR = lazy_pattern(r"\boperator\s*(?:\(\)|\[\]|<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>)")
_CLOSER = {"<": ">", "(": ")", "[": "]", "{": "}"}
_BRACKET = lazy_pattern(r"[<>()\[\]{}]")
_WRAPPER = lazy_pattern(
    r"(?:^cutlass\w*::(?:device_kernel|Kernel2?)|^(?:ck_tile::)?kentry"
    r"|(?:^|::)enable_(?:sm|3x_kernel_for_sm)\w+)$"
)
_FUNCTOR_KERNEL = lazy_pattern(
    r"(?:elementwise_kernel\w*|(?:^|::)reduce_kernel|multi_tensor_apply_kernel\w*|grid_stride_kernel"
    r"|act_and_mul\w*|(?:^|::)trampoline_kernel)$"
)
_RETURN_TYPES = frozenset(
    ("void", "int", "bool", "float", "double", "auto", "static", "inline", "__global__", "decltype")
)
# Words that surround the operation in PyTorch's template arguments but never name it.
_PLUMBING = lazy_pattern(
    r"""(?x)
    (?: gpu_kernel_impl(?:_nocast)? | gpu_kernel(?:_with_scalars)? | gpu_index_kernel
      | opmath_\w*gpu_kernel\w* | type_specialized_\w+ | apply | operator_call
      | (?:Binary|AUnary|BUnary)Functor | (?:Unary|Binary|Ternary|Pointwise)Op\w*Functor
      | ReduceOp | func_wrapper_t | (?:uniform|normal)_and_transform | TensorList\w*Metadata
      | void | float | double | int | long | unsigned | bool | char | short | signed | const
      | volatile | true | false | BFloat16 | Half | Float8_\w+ | complex | \w*bfloat16(?:_t)?
      | (?:__)?half(?:_t)? | float16 | OpaqueType | [Aa]rray | lambda | instance | default_config
      | TensorIterator(?:Base)? | CUDAGeneratorImpl | Scalar | T\d+ | \d\w*
    )$"""
)
_WORD = lazy_pattern(r"(\w+)(\s*::|)")
_FUNCTOR_TAIL = lazy_pattern(
    r"(?:_kernel_cuda|_kernel_impl|_internal_kernel|_kernel|CUDAKernelImpl|_cuda_out)$"
)
_FUNCTOR_HEAD = lazy_pattern(r"^(?:_cuda_|launch_)")
_MANGLED_PART = lazy_pattern(r"(?P<length>\d{1,4})|(?P<open>I)|(?P<first>S_)|N|K|L|S[0-9A-Z]*_|.")


@lru_cache(maxsize=16384)
def demangle(name: str) -> str:
    """The C++ name behind an Itanium `_Z...` symbol; anything else is returned unchanged.

    A loader suffix (`.kd`, `[clone .kd]`) is removed in every case.
    """
    if len(name) > MAX_MANGLED:
        return name
    bare = _SUFFIX.sub("", name) if name.endswith(("]", ".kd")) else name
    if not bare.startswith("_Z"):
        return bare or name
    if len(_REFERENCE.findall(bare)) > MAX_REFERENCES or _budget.left <= 0:
        return bare
    text = _run_demangler(bare)
    _budget.left -= len(text)
    return text if len(text) <= 16 * MAX_MANGLED else bare


class _Budget:
    """What is left of `DEMANGLED_BUDGET`."""

    left = DEMANGLED_BUDGET


_budget = _Budget()


def _run_demangler(symbol: str) -> str:
    try:
        import cxxfilt
    except (ImportError, OSError):  # cxxfilt needs libstdc++ or libc++ at import
        return symbol
    # Older libstdc++ does not know DF16b (__bf16). decimal128 is encoded alike (a builtin without a
    # substitution number) and does not occur in GPU code, so it can be used instead.
    stand_in = symbol.replace("DF16b", "De")
    try:
        text = str(cxxfilt.demangle(stand_in))
    except (cxxfilt.Error, UnicodeError, MemoryError):
        return symbol
    return text.replace("decimal128", "__bf16") if stand_in != symbol else text


# Tensile writes every tuning parameter into the name; layout, types and tile identify a kernel.
_TENSILE = lazy_pattern(
    r"(?P<layout>Cijk_\w+?_[A-Z0-9]+?)_.*?(?P<tile>MT\d+x\d+x\d+(?:_MI\d+x\d+x\d+)?)"
)


@lru_cache(maxsize=16384)
def short_name(name: str) -> str:
    """A kernel name for reading: no return type, no arguments, but what a wrapper kernel wraps.

    `void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, ...>(...)`
    becomes `vectorized_elementwise_kernel[FillFunctor]`. Never empty for a non-empty name.
    """
    full = demangle(name)
    if _MEMORY_NAME.match(full):
        return full
    if full.startswith("_Z"):
        return _from_mangled(full) or full
    if tensile := _TENSILE.match(full):
        return f"{tensile['layout']}_{tensile['tile']}"
    text = _clean(full)
    if not _BRACKET.search(text):
        return _without_return_type(text) or full
    base, arguments = _unwrap(text)
    inner = _functor_in(arguments) if _FUNCTOR_KERNEL.search(base) else ""
    base = base.replace("at::native::", "")
    return (f"{base}[{inner}]" if inner else base) or full


@lru_cache(maxsize=16384)
def functor(name: str) -> str | None:
    """The operation that an element-wise or reduction kernel was instantiated for, if known."""
    base, arguments = _unwrap(_clean(demangle(name)))
    return (_functor_in(arguments) or None) if _FUNCTOR_KERNEL.search(base) else None


def _clean(full: str) -> str:
    text = _NAMELESS.sub("", full[:MAX_READ])
    return _OPERATOR.sub("operator_call", text).strip()


def _unwrap(text: str) -> tuple[str, str]:
    """Qualified name and template arguments of what `text` names, inside any wrappers."""
    base, arguments = _split(text)
    for _ in range(8):  # wrappers nest two or three deep
        if not _WRAPPER.search(base):
            break
        inner = _first_type(arguments)
        if inner is None:
            break
        base, arguments = _split(inner)
    return base, arguments


def _split(text: str) -> tuple[str, str]:
    """Name up to its call arguments or a comma; and the last template arguments in it."""
    pieces: list[str] = []
    arguments = ""
    end = 0
    for start, stop in _groups(text):
        before, comma, _ = text[end:start].partition(",")
        pieces.append(before)
        if comma:
            return _without_return_type("".join(pieces)), arguments
        end = stop
        if text[start] == "<":
            arguments = text[start + 1 : stop]
        elif text[start] == "(" and "".join(pieces).strip() not in ("", "decltype"):
            return _without_return_type("".join(pieces)), arguments
    pieces.append(text[end:].partition(",")[0])
    return _without_return_type("".join(pieces)), arguments


def _groups(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the outermost brackets; one that is never closed reaches to the end.

    Inside parentheses `>` may be "greater than" (`enable_if<(8 > 0)>`): it closes only a `<`.
    """
    stack: list[str] = []
    start = 0
    for match in _BRACKET.finditer(text):
        mark = match.group()
        if mark in _CLOSER:
            if not stack:
                start = match.start()
            stack.append(mark)
        elif stack:
            _close(stack, mark)
            if not stack:
                yield start, match.end()
    if stack:
        yield start, len(text)


def _close(stack: list[str], mark: str) -> None:
    if _CLOSER[stack[-1]] == mark:
        stack.pop()
    elif mark != ">":
        # A `<` left open inside was "less than". Popping is paid for by the push: linear over all.
        while stack and stack[-1] == "<":
            stack.pop()
        if stack and _CLOSER[stack[-1]] == mark:
            stack.pop()


def _without_return_type(base: str) -> str:
    words = base.split()
    while len(words) > 1 and (words[0] in _RETURN_TYPES or "::" in words[0]):
        words.pop(0)
    return " ".join(words)


def _first_type(arguments: str) -> str | None:
    """From the first argument that is a type, not a number or a cast, to the end."""
    match = re.search(r"(?:^|,)\s*(?:void\s+)?([A-Za-z_][\w:]*<|[A-Za-z_][\w:]{7,})", arguments)
    return arguments[match.start(1) :].rstrip("> ") if match else None


def _functor_in(arguments: str) -> str:
    closed = arguments.endswith((">", ")", "]", "}"))
    for match in _WORD.finditer(arguments):
        word, scope = match.groups()
        if not closed and match.end() == len(arguments):
            break  # the name was cut inside this word
        if scope or _PLUMBING.match(word):
            continue
        return _FUNCTOR_HEAD.sub("", _FUNCTOR_TAIL.sub("", word)) or word
    return ""


def _from_mangled(symbol: str) -> str:
    """Best reading of a symbol that the demangler refuses: its first qualified name."""
    first = ""
    for parts in _mangled_names(symbol):
        first = first or "::".join(parts)
        name = "::".join(name_part for name_part in parts if name_part != "_GLOBAL__N_1")
        if name and not _WRAPPER.search(name):
            return name
    return first


def _mangled_names(symbol: str) -> Iterator[list[str]]:
    """Runs of length-prefixed identifiers up to each `I` (template arguments begin)."""
    parts: list[str] = []
    root = ""
    position = 2
    while position < min(len(symbol), MAX_MANGLED) and (
        match := _MANGLED_PART.match(symbol, position)
    ):
        position = match.end()
        ends = match["open"] or match.group() not in "NKL"
        if match["length"]:
            stop = position + int(match["length"])
            parts.append(symbol[position:stop])
            ends = not root and symbol[2] != "N"  # `_Z3foo...`: a single name, not a path
            root, position = root or parts[0], stop
        elif match["first"]:
            parts, ends = [root], False
        if ends:
            yield parts
            parts = []
    yield parts
