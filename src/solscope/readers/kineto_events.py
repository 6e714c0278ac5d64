"""What the pure-Python scanner takes of an event: its members, decoded by msgspec.

Members that a scan does not need are skipped while decoding; arguments that stay JSON are kept raw.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from solscope.readers.kineto_columns import ABSENT


class Args(msgspec.Struct, gc=False):
    """Arguments of an event, under the names that torch has given them over time."""

    device: Any = None
    stream: Any = None
    correlation: Any = None
    external_id: Any = msgspec.field(default=None, name="External id")
    external_id_old: Any = msgspec.field(default=None, name="external id")
    graph_id: Any = msgspec.field(default=None, name="graph id")
    graph_node: Any = msgspec.field(default=None, name="graph node id")
    bytes: Any = None
    launched: Any = msgspec.field(default=None, name="kernel")
    grid: msgspec.Raw = ABSENT
    block: msgspec.Raw = ABSENT
    input_dims: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Dims")
    input_dims_old: msgspec.Raw = msgspec.field(default=ABSENT, name="Input dims")
    input_types: msgspec.Raw = msgspec.field(default=ABSENT, name="Input type")
    input_types_new: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Type")
    input_strides: msgspec.Raw = msgspec.field(default=ABSENT, name="Input Strides")
    concrete_inputs: msgspec.Raw = msgspec.field(default=ABSENT, name="Concrete Inputs")
    elements: msgspec.Raw = msgspec.field(default=ABSENT, name="In msg nelems")
    dtype: msgspec.Raw = ABSENT
    ranks: msgspec.Raw = msgspec.field(default=ABSENT, name="Group size")
    in_split: msgspec.Raw = msgspec.field(default=ABSENT, name="In split size")
    out_split: msgspec.Raw = msgspec.field(default=ABSENT, name="Out split size")
    collective: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    sequence: Any = msgspec.field(default=None, name="Seq")
    source: Any = msgspec.field(default=None, name="Src Rank")
    target: Any = msgspec.field(default=None, name="Dst Rank")


class Event(msgspec.Struct, gc=False):
    """One event of a Chrome trace."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args | None = None


class Times(msgspec.Struct, gc=False):
    """The times of an event once more, without the loss of a float."""

    ph: Any = None
    ts: msgspec.Raw = ABSENT
    dur: msgspec.Raw = ABSENT


NO_ARGS = Args()
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised when decoding text that is not an event."""
decode_events = msgspec.json.Decoder(list[Event], strict=False).decode
decode_event = msgspec.json.Decoder(Event, strict=False).decode
decode_times = msgspec.json.Decoder(list[Times], strict=False).decode
_WHOLE = re.compile(rb"0|[1-9][0-9]{0,17}")
_PLAIN = re.compile(rb'"[^"\\]{0,4094}"')


def with_message(args: Args) -> Args:
    """Use the arguments of a collective as its inputs, in the columns where torch records them."""
    if not args.elements or args.input_dims or args.input_dims_old:
        return args
    elements, dtype = bytes(args.elements), bytes(args.dtype)
    if not _WHOLE.fullmatch(elements) or not _PLAIN.fullmatch(dtype):
        return args
    ranks = bytes(args.ranks)
    parts = (bytes(split) for split in (args.in_split, args.out_split))
    splits = [split if _PLAIN.fullmatch(split) else b'""' for split in parts]
    size = b'"%s"' % ranks if _WHOLE.fullmatch(ranks) else b'""'
    concrete = b'["","","","","",%s,%s,"","",%s]' % (*splits, size)
    args.input_dims = msgspec.Raw(b"[[%s]]" % elements)
    if not (args.input_types or args.input_types_new):
        args.input_types = msgspec.Raw(b"[%s]" % dtype)
    args.concrete_inputs = args.concrete_inputs or msgspec.Raw(concrete)
    return args
