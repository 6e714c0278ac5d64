"""Redact: take out of a profile what says who made it, where, and with which data.

Removed: host and user names, paths, URLs, e-mail and network addresses, secrets, identifiers,
object addresses and header fields. Kept: names of kernels, operators and Python functions, files of
packages relative to the package, shapes, times, devices, versions. Every text is looked at,
whatever its column. The same name always becomes the same token, `<host1>`, so that tables still
join and one can see that two texts are about the same host.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import msgspec
import polars as pl

from solscope.profile import Metadata, Profile, ProfileWarning
from solscope.redact.patterns import BARE_SECRET, PATTERNS, SECRET_KEY, looks_random

KINDS = {
    "secret": "passwords, keys and tokens",
    "url": "URLs",
    "email": "e-mail addresses",
    "path": "file paths",
    "ip": "network addresses",
    "id": "identifiers of GPUs, jobs and machines",
    "host": "host names",
    "user": "user names",
    "address": "object addresses",
    "fact": "facts of the header",
}
"""What is counted, and what each word means."""

_PACKAGES = """
accelerate aiter apex asyncio bitsandbytes concurrent contextlib datasets deep_gemm deepspeed
diffusers einops fastapi flash_attn flash_mla flashinfer fla importlib json lmdeploy logging
lightllm maga_transformer megatron mooncake multiprocessing numpy nvidia peft PIL pydantic ray
rtp_llm safetensors sglang sgl_kernel tensorrt_llm threading tilelang tokenizers torch torchaudio
torchvision tqdm transformer_engine transformers triton unittest uvicorn uvloop vllm xformers xfuser
zmq
"""
PACKAGES = frozenset(_PACKAGES.split())
"""Folders below which a path says which code ran, not whose machine it ran on."""

_EVERYBODY = PACKAGES | {"app", "admin", "docker", "jovyan", "root", "runner", "ubuntu", "user"}
"""Names of home folders that name nobody."""
_MACHINE = "app data home local mnt nfs opt private root scratch srv tmp usr users var workspace"
_MACHINE_FOLDERS = frozenset(_MACHINE.split())
_FRAME = re.compile(r"(?s)(?P<file>.*[^)>])(?P<line>\(\d+\): .*)")
_INSTALLED = re.compile(r"^.*/(?:(?:site|dist)-packages|lib/python[\d.]+)/")
_HOME = re.compile(r"[/\\](?:home|Users)[/\\]+([^/\\\s\"']+)(?=[/\\\"'\s]|$)")
_HOST_IN_FILE = re.compile(r"^([\w.-]+?)_\d+\.\d{10,}\.pt\.trace\.json")
_HOST_FACT = re.compile(r"(?:^|[._])(?:node|nodename|hostname|fqdn)$", re.IGNORECASE)
_PASSWORD = re.compile(r"(?i:passw(or)?d|passphrase)")
"""Names of values that are never a count."""
_RANDOM = re.compile(r"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[\w+/=.-]{32,}")


class Replacement(msgspec.Struct, frozen=True):
    """One private text, what stands in its place, and how many texts had it."""

    kind: str
    token: str
    original: str
    texts: int


class Redactor:
    """Replaces private parts of texts and tables, and counts the texts it changed, by kind."""

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        self.counts = dict.fromkeys(KINDS, 0)
        self._known: dict[tuple[str, object], str] = {}
        self._tokens: dict[tuple[str, str], str] = {}
        self._replaced: dict[tuple[str, str], int] = {}
        self._words = tuple(
            (kind, re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", re.IGNORECASE))
            for kind, words in (("host", hosts), ("user", users))
            for word in sorted(set(words), key=len, reverse=True)
        )

    @property
    def replacements(self) -> list[Replacement]:
        """What was replaced, with the originals: for whoever redacts, not for whoever receives."""
        return [
            Replacement(kind, self._token(kind, original), original, texts)
            for (kind, original), texts in self._replaced.items()
        ]

    def text(self, text: str) -> str:
        """`text` without its private parts, each replaced by a token such as `<host1>`."""
        return self._once(text, self._scrub)

    def json(self, text: str) -> str:
        """The same for a JSON value: its strings, which may also be a path or a key as a whole."""
        return self._once(text, self._scrub_json)

    def table(self, table: pl.DataFrame) -> pl.DataFrame:
        """`table` with every text column redacted, one distinct text at a time."""
        return table.with_columns(
            self._column(column) for column in table if column.dtype in (pl.String, pl.Categorical)
        )

    def _column(self, column: pl.Series) -> pl.Series:
        change = self.json if column.name == "concrete_inputs" else self.text
        # In order, so that tokens have the same numbers each time.
        distinct = sorted(column.unique().drop_nulls().cast(pl.String).to_list())
        changed = {old: new for old in distinct if (new := change(old)) != old}
        if not changed:
            return column
        texts = column.cast(pl.String).replace(changed)
        return texts.cast(column.dtype)

    def _once(self, text: str, change: Callable[[str, set[str]], str]) -> str:
        """The result for `text`, found and counted when it is first seen."""
        if (text, change) not in self._known:
            kinds: set[str] = set()
            self._known[text, change] = change(text, kinds)
            for kind in kinds:
                self.counts[kind] += 1
        return self._known[text, change]

    def _scrub_json(self, text: str, kinds: set[str]) -> str:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return self._scrub(text, kinds)
        clean = self._value(value, kinds)
        return text if clean == value else msgspec.json.encode(clean).decode()

    def _value(self, value: Any, kinds: set[str]) -> Any:
        if isinstance(value, list):
            return [self._value(item, kinds) for item in value]
        if isinstance(value, dict):
            return {self._scrub(str(k), kinds): self._member(k, v, kinds) for k, v in value.items()}
        if not isinstance(value, str):
            return value
        whole = "path" if _is_path(value) else "secret" if _RANDOM.fullmatch(value) else None
        if whole is None:
            return self._scrub(value, kinds)
        return self._replaced_by(whole, value, kinds)

    def _member(self, key: str, value: Any, kinds: set[str]) -> Any:
        if SECRET_KEY.search(key):
            if isinstance(value, str) and value:
                return self._replaced_by("secret", value, kinds)
            if isinstance(value, list):
                return [self._member(key, item, kinds) for item in value]
            if _PASSWORD.search(key) and isinstance(value, int) and not isinstance(value, bool):
                return self._replaced_by("secret", str(value), kinds)
        return self._value(value, kinds)

    def _scrub(self, text: str, kinds: set[str]) -> str:
        if frame := _FRAME.fullmatch(text):
            file = module_file(frame["file"])
            if file != frame["file"]:
                kinds.add("path")
            text = file + frame["line"]
        return self._replace(text, kinds)

    def _replace(self, text: str, kinds: set[str]) -> str:
        lowered = text.lower()
        for kind, hints, pattern in PATTERNS:
            if any(hint in lowered for hint in hints):
                text = self._sub(kind, pattern, text, kinds)
        for kind, pattern in self._words:
            text = self._sub(kind, pattern, text, kinds)
        return self._sub("secret", BARE_SECRET, text, kinds) if len(text) >= 40 else text

    def _sub(self, kind: str, pattern: re.Pattern[str], text: str, kinds: set[str]) -> str:
        accept = _ACCEPT.get(pattern) or _ACCEPT.get(kind)

        def token(match: re.Match[str]) -> str:
            original = match.group()
            if accept is not None and not accept(original):
                return original
            return self._replaced_by(kind, original, kinds)

        return pattern.sub(token, text)

    def _replaced_by(self, kind: str, original: str, kinds: set[str]) -> str:
        kinds.add(kind)
        self._replaced[kind, original] = self._replaced.get((kind, original), 0) + 1
        return self._token(kind, original)

    def _token(self, kind: str, original: str) -> str:
        """The same for the same name; all secrets share one token, as do addresses of objects."""
        if kind in ("secret", "address"):
            return f"<{kind}>"
        name = original.lower() if kind in ("host", "user") else original
        name = name.partition(".")[0] if kind == "host" else name
        if (kind, name) not in self._tokens:
            number = 1 + sum(other == kind for other, _ in self._tokens)
            self._tokens[kind, name] = f"<{kind}{number}>"
        return self._tokens[kind, name]


def module_file(file: str) -> str:
    """A source file relative to its package, or its bare name when no package is known.

    `/home/me/x/vllm/worker.py` gives `vllm/worker.py`; `/home/me/run.py` gives `run.py`.
    """
    path = file.replace("\\", "/")
    installed = _INSTALLED.sub("", path)
    if installed != path:
        return installed
    parts = path.split("/")
    for depth, folder in enumerate(parts[:-1]):
        if folder in PACKAGES:
            # A checkout repeats the name of its package: sglang/python/sglang/srt/server.py.
            last = len(parts) - 2 - parts[-2::-1].index(folder)
            return "/".join(parts[max(depth, last) :])
    foreign = len(parts) > 1 and (parts[0] in ("", "~", "..", ".") or ":" in parts[0])
    return parts[-1] if foreign or parts[0].lower() in _MACHINE_FOLDERS else file


def redact(profile: Profile) -> tuple[Profile, Redactor]:
    """The profile without its private parts, and what did it, to be used on tables made from it."""
    redactor = redactor_for(profile)
    meta, facts = _metadata(profile.metadata, redactor)
    redactor.counts["fact"] = facts
    return (
        replace(
            profile,
            path=f"redacted.{profile.format}",
            metadata=meta,
            events=redactor.table(profile.events),
            aggregates=redactor.table(profile.aggregates),
            metrics=None if profile.metrics is None else redactor.table(profile.metrics),
            cycles=None if profile.cycles is None else redactor.table(profile.cycles),
            observations=None,  # names of sections and files: not worth the risk
            warnings=tuple(
                ProfileWarning(w.code, redactor.text(w.message)) for w in profile.warnings
            ),
        ),
        redactor,
    )


def redactor_for(profile: Profile) -> Redactor:
    """A redactor for the hosts and users named in this profile."""
    meta = profile.metadata
    hosts = {meta.host} if meta.host else set()
    hosts |= {v for k, v in meta.about.items() if _HOST_FACT.search(k) and isinstance(v, str)}
    if match := _HOST_IN_FILE.match(PurePath(profile.path).name):
        hosts.add(match.group(1))
    hosts |= {host.partition(".")[0] for host in hosts}
    texts = [profile.path, *map(str, meta.about.values()), *meta.versions.values()]
    for column in ("name", "concrete_inputs"):
        texts += profile.events[column].unique().drop_nulls().cast(pl.String).to_list()
    users = {user for text in texts for user in _HOME.findall(text)}
    return Redactor(
        (host for host in hosts if len(host) > 2),
        (user for user in users if len(user) > 2 and user.lower() not in _EVERYBODY),
    )


def _metadata(meta: Metadata, redactor: Redactor) -> tuple[Metadata, int]:
    """Metadata without host and header facts, and how many of them there were."""
    versions = {key: redactor.text(value) for key, value in meta.versions.items()}
    redacted = msgspec.structs.replace(meta, host=None, about={}, versions=versions)
    return redacted, len(meta.about) + (meta.host is not None)


def _is_path(text: str) -> bool:
    """True for an argument that is a path as a whole: separators, and no space before the first."""
    head, separator, _ = text.replace("\\", "/").partition("/")
    return bool(separator) and " " not in head and "://" not in text


def _is_network(text: str) -> bool:
    """True for an IPv4 or IPv6 address, with or without a port, and for a MAC address."""
    if re.fullmatch(r"[\da-fA-F]{2}(?::[\da-fA-F]{2}){5}", text):
        return True
    try:
        ipaddress.ip_address(text.partition(":")[0] if "." in text else text)
    except ValueError:
        return False
    return True


_ACCEPT: dict[object, Callable[[str], bool]] = {"ip": _is_network, BARE_SECRET: looks_random}
"""What must hold of a match, by kind or by pattern, where a pattern cannot say it."""
