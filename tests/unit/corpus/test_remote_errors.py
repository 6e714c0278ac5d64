"""Errors of an object store say bucket, credentials or endpoint, in one line."""

from __future__ import annotations

import pytest

from solscope.corpus.remote_errors import explain

SAID = {
    "Generic S3 error: Error performing GET http://h/b in 4ms - Server returned non-2xx status "
    "code: 404 Not Found: <Error><Code>NoSuchBucket</Code>": "the bucket does not exist",
    "Generic S3 error: 403 Forbidden: <Code>InvalidAccessKeyId</Code>": "the credentials are wrong",
    "Generic S3 error: status: 403 <Code>AccessDenied</Code>": "access denied",
    "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 3s - HTTP "
    "error: error sending request": "no credentials",
    "Kernel error -> Generic S3 error: error sending request for url: tcp connect error: "
    "Connection refused": "the endpoint cannot be reached",
    "Generic S3 error: builder error: URL scheme is not allowed": "AWS_ALLOW_HTTP=true",
    "Generic S3 error: Missing region": "set AWS_REGION",
}


@pytest.mark.parametrize("text", SAID)
def test_the_cause_is_named(text: str) -> None:
    told = explain(OSError(text), "s3://bucket/store")
    assert SAID[text] in told
    assert "\n" not in told


def test_what_is_not_known_is_passed_on_without_escapes() -> None:
    told = explain(OSError("\x1b[31mstrange\x1b[0m\nthings"), "s3://bucket/store")
    assert told == "strange things"
    assert explain(OSError("first\nsecond"), "folder") == "first"
