"""What an object store's error means: bucket, credentials, endpoint or network."""

from __future__ import annotations

import re

_MEANINGS = (
    (r"NoSuchBucket|bucket does not exist|BucketNotFound", "the bucket does not exist"),
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken"
        r"|status: 401|401 Unauthorized",
        "the credentials are wrong or have expired (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
        "AWS_SESSION_TOKEN)",
    ),
    (
        r"169\.254\.169\.254|instance metadata|CredentialsNotLoaded|[Nn]o credentials"
        r"|credential provider|error getting credentials",
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    (
        r"AccessDenied|status: 403|403 Forbidden",
        "access denied: these credentials may not read or write here",
    ),
    (
        r"Missing region|AWS_REGION|PermanentRedirect|301 Moved",
        "the region is wrong or missing: set AWS_REGION",
    ),
    (
        r"HTTP is not allowed|allow_http|scheme is not https|URL scheme is not allowed"
        r"|builder error",
        "the endpoint is plain HTTP: set AWS_ALLOW_HTTP=true if that is intended",
    ),
    (
        r"dns error|failed to lookup|Connection refused|tcp connect error|error sending request"
        r"|client error \(Connect\)|timed out",
        "the endpoint cannot be reached: check AWS_ENDPOINT_URL and the network",
    ),
)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m|\\u\{1b\}\[[0-9;]*m")
_LONGEST = 300


def explain(error: BaseException, url: str) -> str:
    """One line: what is wrong, where known, and what the library said."""
    said = " ".join(_ESCAPES.sub("", str(error)).split()) or type(error).__name__
    if "://" not in url:
        return _ESCAPES.sub("", (str(error).splitlines() or [type(error).__name__])[0])
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, said):
            return meaning
    return said[:_LONGEST]
