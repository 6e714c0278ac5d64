"""What private text looks like, by kind.

Each kind has hints, plain texts one of which must occur, because most names have none of them and a
search costs more. `docs/log.md` says why no rule set of another package is used.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from solscope.patterns import lazy_pattern


class Pattern(NamedTuple):
    """One way in which private text of a kind is written."""

    kind: str
    hints: tuple[str, ...]
    """In lower case; none means that every text is searched."""
    expression: re.Pattern[str]


_WORDS = (
    "passwd", "password", "passphrase", "secret", "credential", "token", "apikey", "api_key",
    "api-key", "access_key", "accesskey", "private_key", "privatekey", "signing_key", "signingkey",
    "encryption_key", "account_key", "accountkey", "auth_key",
)  # fmt: skip
"""Names of variables and options that hold a secret."""
_NAME = (
    r"(?:passw(?:or)?d|passphrase|secret|credential"
    r"|(?:api|access|private|signing|encryption|account|auth)[-_]?key"
    r"|(?:auth|access|session|refresh|bot)[-_]?token|(?<![a-z])token)"
    r"(?:[-_](?:access|key|id|value|string|hash)){0,3}"
)
SECRET_KEY = lazy_pattern(rf"(?i:(?:\b|_){_NAME}$)")
"""Key of an object whose value is a secret."""
_PREFIXES = (
    "hf_", "sk-", "sk_live_", "sk_test_", "rk_live_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_",
    "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "ya29.",
    "npm_", "pypi-", "nvapi-", "gsk_", "dop_v1_", "dckr_pat_", "hvs.", "xai-", "pplx-",
)  # fmt: skip
_DATA = (
    "bin|safetensors|gguf|pt|pth|ckpt|onnx|npy|npz|h5|json|jsonl|ya?ml|toml|ini|env|csv|tsv|parquet|arrow|txt"
    "|log|db|sqlite|gz|zst|tar|zip|sh|pem|key|crt|html|md|ipynb|nsys-rep|pickle|pkl"
)
_DOMAINS = (
    "local|internal|intranet|lan|corp|cluster|example|com|net|org|edu|gov|io|ai|cn|dev|cloud|tech|de|fr"
    "|uk|jp|kr|eu|ch|nl|se"
)

# In this order: a URL holds a path, a secret may look like anything.
PATTERNS = (
    Pattern(
        "secret",
        ("-----begin",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{1,40}-----(?s:.){0,20000}?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)"
        ),
    ),
    Pattern(
        "secret",
        ("aaaa",),
        re.compile(r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}) AAAA[\w+/=]{8,}"),
    ),
    Pattern(
        "secret",
        _PREFIXES,
        re.compile(rf"\b(?:{'|'.join(map(re.escape, _PREFIXES))})[\w.~+/=-]{{8,}}"),
    ),
    Pattern(
        "secret",
        ("akia", "asia", "aida", "aroa", "aiza", "dapi", "sg.", "eyj", "age-secret-key-"),
        re.compile(
            r"\b(?:A(?:KIA|SIA|IDA|ROA)[A-Z0-9]{16}|AIza[\w-]{30,}|dapi[0-9a-f]{32}"
            r"|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{4,400}\.[\w.-]{8,}|AGE-SECRET-KEY-\w{20,})"
        ),
    ),
    Pattern("secret", (":aa",), re.compile(r"\b\d{8,10}:AA[\w-]{30,}")),
    Pattern("secret", ("bearer ",), re.compile(r"(?i:(?<=bearer )[\w.~+/=-]{8,})")),
    Pattern(
        "secret",
        ("basic ",),
        re.compile(r"(?<=[Bb]asic )(?=[a-z]{0,80}[A-Z0-9+/=])[A-Za-z0-9+/]{8,}={0,2}"),
    ),
    Pattern("secret", ("sig=",), re.compile(r"(?i:(?<![a-z])sig=[%\w+/=-]{16,})")),
    Pattern(
        "secret",
        _WORDS,
        re.compile(
            rf"(?i:['\"][\w-]{{0,40}}{_NAME}['\"]\s*:\s*['\"](?!\d+['\"])[^'\"]+"
            rf"|\b[\w-]{{0,40}}{_NAME}['\"]?\s*[=:]\s*['\"]?(?!\d+(?![^\s'\",;)]))[^\s'\",;)]{{4,}}"
            rf"|\b[\w-]{{0,40}}(?:passw(?:or)?d|secret|api[-_]?key)\s+(?=\S*\d)(?!\d+(?![^\s'\",;)]))[^\s'\",;)]{{4,}}"
            rf"|\b[\w-]{{0,40}}passw(?:or)?d['\"]?\s*[=:]\s*['\"]?\d[^\s'\",;)]{{3,}})"
        ),
    ),
    Pattern("url", ("://",), re.compile(r"\b[a-zA-Z][\w+.-]{1,15}://[^\s\"'<>]+")),
    Pattern(
        "email",
        ("@",),
        re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[A-Za-z]{2,}\b"),
    ),
    Pattern(
        "path",
        ("/", "\\"),
        re.compile(
            r"(?<![\w.>)\]}/~-])~?/(?=[\w.~])(?:[^/\n\"'<>|]{1,255}/)*[^\s/\"'<>|,;:)\]]*"
            r"|(?<![\w./-])\.{1,2}/[^\s\"'<>|,;:)\]]+"
            rf"|(?<![\w./>-])(?:[\w.~-]{{1,100}}/){{1,20}}[\w.~-]{{1,100}}\.(?:{_DATA})\b"
            r"|(?<!\w)[A-Za-z]:\\[^\n\"'<>|]+|\\\\[\w.-]+\\[^\n\"'<>|]+"
        ),
    ),
    Pattern(
        "id",
        ("-", "job", "slurm", "pbs", "lsb"),
        re.compile(
            r"\b(?:GPU-|MIG-)?[\da-fA-F]{8}-[\da-fA-F]{4}-[\da-fA-F]{4}-[\da-fA-F]{4}-[\da-fA-F]{12}\b"
            r"|(?i:\b(?:slurm|pbs|lsb|job)[a-z_]{0,20}\s*[=:-]\s*\d{4,})|\bi-[\da-f]{17}\b"
        ),
    ),
    Pattern(
        "ip",
        (".", ":"),
        re.compile(
            r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|[\da-fA-F:]{6,39})(?![\w:]|\.\d)"
        ),
    ),
    Pattern(
        "host",
        ("-", "."),
        re.compile(
            r"\bip-\d+-\d+-\d+-\d+\b"
            r"|\b(?=[\w.]{0,80}[\d-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}"
            rf"\.(?:{_DOMAINS})\b(?![\w(])"
            # Pods of a deployment; then hosts by their usual words, of at least three parts.
            r"|(?<![\w.-])[a-z][a-z0-9]{0,40}(?:-[a-z0-9]{1,40}){0,8}-[\da-f]{8,10}-[a-z0-9]{5}(?![\w-])"
            r"|(?<![\w.-])(?:[a-z0-9]{1,40}-){1,8}(?:node|host|dgx|hgx|compute|login|server|srv|rack|gpu)s?-?\d{1,5}"
            r"(?:-[a-z0-9]{1,40}){0,4}(?![\w-])"
            r"|(?<![\w.-])(?:node|dgx|hgx|login|compute)-?\d{2,5}(?![\w-])"
        ),
    ),
    Pattern("address", ("0x",), re.compile(r"\b0x[\da-fA-F]{5,16}\b")),
)

BARE_SECRET = lazy_pattern(r"(?<![\w/+=-])[A-Za-z0-9/+]{40}(?![\w/+=-])")
"""A key without anything around it that says so, as AWS makes them."""
_CHANGES = 12
_LETTERS_IN_WORDS = 12


def looks_random(word: str) -> bool:
    """Whether letters and digits alternate as in a key.

    In a name such as `fusedDecodeConcatKernel` most letters belong to words: runs of at least four
    small letters, which are rare in a key.
    """
    kinds = [
        "a" if c.islower() else "A" if c.isupper() else "0" if c.isdigit() else c for c in word
    ]
    changes = sum(a != b for a, b in pairwise(kinds))
    in_words = sum(len(run) for run in re.findall(r"[a-z]{4,}", word))
    return {"a", "A", "0"} <= set(kinds) and changes >= _CHANGES and in_words <= _LETTERS_IN_WORDS
