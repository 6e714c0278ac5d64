"""A Ray cluster that does not start in the time that Ray gives it."""

from __future__ import annotations

import socket
import sys
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from solscope.corpus.ingest.engines.ray import STARTS, RayEngine
from solscope.errors import InputError

LATE = Exception(
    "The current node timed out during startup. This could happen because some of the raylet "
    "failed to startup or the GCS has become overloaded."
)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Stands in for the package."""
    module = Mock()
    module.cluster_resources.return_value = {"CPU": 1}
    monkeypatch.setitem(sys.modules, "ray", module)
    return module


def test_it_is_started_again(ray: Mock) -> None:
    ray.init.side_effect = [LATE, None]
    assert list(RayEngine(workers=1).run([], frozenset())) == []
    assert ray.init.call_count == 2
    assert ray.shutdown.call_count == 2


def test_in_the_end_one_line_says_so(ray: Mock) -> None:
    ray.init.side_effect = LATE
    with pytest.raises(InputError, match="no Ray cluster on this machine: The current node timed"):
        list(RayEngine(workers=1).run([], frozenset()))
    assert ray.init.call_count == STARTS


def test_a_cluster_elsewhere_is_asked_once(ray: Mock, tmp_path: Path) -> None:
    ray.init.side_effect = ConnectionError("refused")
    with pytest.raises(InputError, match="no Ray cluster auto: refused"):
        list(RayEngine(address="auto").run([], frozenset()))
    assert ray.init.call_count == 1


class Refused(Exception):  # noqa: N818 - stands in for an error of Ray
    """The token is missing or wrong."""


def test_a_cluster_that_wants_another_token_is_named_before_ray_tries_for_minutes(
    ray: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.exceptions = Mock(AuthenticationError=Refused, RayError=Exception)
    client = Mock(side_effect=Refused("missing or incorrect"))
    monkeypatch.setitem(sys.modules, "ray._raylet", Mock(GcsClient=client))
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=f"cluster at {address} needs a token"):
            list(RayEngine(address=address).run([], frozenset()))
        client.side_effect = OSError("timed out\nmore")
        with pytest.raises(InputError, match=f"no Ray cluster at {address}: timed out$"):
            list(RayEngine(address=address).run([], frozenset()))
    assert ray.init.call_count == 0
