"""What the operating system keeps a worker from, beyond what audit hooks see.

Done once in the fork server, before torch is imported, and inherited by all workers. Whatever the
kernel refuses is left out and named, so that a results file says what held.

* `privileges`: no program that it starts gains any (PR_SET_NO_NEW_PRIVS).
* `namespace`: a user and a mount namespace of its own, in which the folder of the evaluator is
  empty: not even code that calls open(2) itself finds a reference.
* `system calls`: ptrace, process_vm_readv, process_vm_writev and pidfd_getfd fail, as do all calls
  by another architecture's numbers; and a worker cannot give up what it started, which is stopped
  and counted with it. With `full` it cannot start what is a child of its parent either: clone fails
  with CLONE_PARENT, and clone3, whose flags a filter cannot see, is not there. /proc/PID/mem is a
  file: `set_dumpable` closes the evaluator's, and audit hooks see what Python opens.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Callable
from pathlib import Path

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
SECCOMP_MODE_FILTER = 2
CLONE_NEWNS, CLONE_NEWUSER = 0x0002_0000, 0x1000_0000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 1 << 14, 1 << 18
"""Numbers of linux/prctl.h, linux/sched.h and linux/mount.h."""
ARCHITECTURES = {
    "x86_64": (0xC000_003E, (101, 310, 311, 438), 157, 56),
    "aarch64": (0xC000_00B7, (117, 270, 271, 438), 167, 220),
}
"""AUDIT_ARCH; the numbers of ptrace, process_vm_readv, process_vm_writev, pidfd_getfd; of prctl; of
clone."""
CLONE3 = 435
"""Its number on all architectures."""
CLONE_PARENT = 0x8000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24
"""Where the words of a system call are, as a filter sees it; of arguments the lower half."""
X32 = 0x4000_0000
"""Set in the numbers of a second way to call the kernel on x86_64."""
LEVELS = ("full", "calls", "off")
"""What `isolate` takes."""
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions of classic BPF: load a word, compare with a constant, test bits of it, return."""
ALLOW, REFUSE, MISSING = 0x7FFF_0000, 0x0005_0000 | 1, 0x0005_0000 | 38
"""SECCOMP_RET_ALLOW, and SECCOMP_RET_ERRNO with EPERM and ENOSYS."""


def isolate(level: str, folder: str) -> dict[str, str]:
    """Isolate this process and all that it starts; by part, `yes` or why not.

    `full` also hides `folder`, the evaluator's; `off` does nothing.
    """
    if level == "off":
        return {}
    measures: dict[str, Callable[[], None]] = {"privileges": keep_privileges}
    if level == "full":
        measures["namespace"] = lambda: hide(folder)
    measures["system calls"] = lambda: refuse_system_calls(siblings=level == "full")
    return {name: _tried(measure) for name, measure in measures.items()}


def _tried(measure: Callable[[], None]) -> str:
    try:
        measure()
    except (OSError, AttributeError, KeyError, ValueError) as error:
        return f"no: {error}"
    return "yes"


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def keep_privileges() -> None:
    """No program that is started from here on gains privileges."""
    _checked(_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def hide(folder: str) -> None:
    """Make a folder empty for this process and its children, and for nobody else."""
    libc = _libc()
    user, group = os.getuid(), os.getgid()
    _checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    flags = MS_NOSUID | MS_NODEV
    _checked(libc.mount(b"none", os.fsencode(folder), b"tmpfs", flags, b"size=4k,mode=555"))


def filter_program(machine: str, *, siblings: bool) -> list[tuple[int, int, int, int]]:
    """Steps of classic BPF: what to do, how many steps to skip if so and if not, a constant.

    An architecture numbers its system calls in its own way, and a process may use a second one
    (`int 0x80` on x86_64). Those numbers mean other calls, so all of them are refused. `siblings`
    refuses to start children of the parent.
    """
    architecture, numbers, prctl, clone = ARCHITECTURES[machine]
    gives_up = [
        (JUMP_EQUAL, 0, 4, prctl),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_EQUAL, 0, 2, PR_SET_CHILD_SUBREAPER),
        (LOAD, 0, 0, SECOND_ARGUMENT),
        (JUMP_EQUAL, 1, 0, 0),
    ]
    if siblings:
        gives_up = [
            (JUMP_EQUAL, 0, 1, CLONE3),
            (RETURN, 0, 0, MISSING),
            (JUMP_EQUAL, 0, 2, clone),
            (LOAD, 0, 0, FIRST_ARGUMENT),
            (JUMP_SET, 6, 5, CLONE_PARENT),
            *gives_up,
        ]
    checks, rest = len(numbers), len(gives_up) + 1
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 0, 2 + checks + rest, architecture),
        (LOAD, 0, 0, NUMBER),
        (JUMP_AT_LEAST, checks + rest, 0, X32),
        *((JUMP_EQUAL, checks - 1 - at + rest, 0, number) for at, number in enumerate(numbers)),
        *gives_up,
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    ]


def refuse_system_calls(*, siblings: bool) -> None:
    """Let system calls that look into other processes fail."""
    program = filter_program(platform.machine(), siblings=siblings)
    code = b"".join(struct.pack("HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    filled = Filter(len(program), ctypes.cast(buffer, ctypes.c_void_p))
    _checked(_libc().prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filled), 0, 0))


def set_dumpable(value: int) -> None:
    """Whether processes of the same user may look into this one; refused quietly off Linux."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, value, 0, 0, 0)
    except (AttributeError, OSError):
        return
