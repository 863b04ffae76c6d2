# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine, as /proc has them. Imports no more than it needs: private_dev_shm() comes before threads."""
import ctypes
import os
import socket
from pathlib import Path


def of_parent(pid):
    """Its children, zombies as well: by the parent that each names, since the lists of its threads end with a thread."""
    return [int(child) for child in os.listdir("/proc") if child.isdigit() and _state_and_parent(child)[1] == pid]


def _state_and_parent(pid):
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "", -1
    return state, int(parent)


def descendants(pid):
    return [found for child in of_parent(pid) for found in (child, *descendants(child))]


def children():
    """Processes that this one has started and not waited for, the helpers of multiprocessing aside."""
    from multiprocessing import forkserver, resource_tracker
    helpers = {resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid}
    return sorted(set(of_parent(os.getpid())) - helpers)


def there(pid):
    """Whether it runs, or is a zombie that this process has to wait for."""
    state, parent = _state_and_parent(pid)
    return bool(state) and (state != "Z" or parent == os.getpid())


def private_dev_shm(size):
    """Gives this process and its children a /dev/shm of their own. Before there are threads. False: it may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, new_user, private = 0x20000, 0x10000000, 0x4000 | 1 << 18
    user, group = os.getuid(), os.getgid()
    if libc.unshare(new_mounts | new_user) != 0:
        return False
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    except OSError:
        return False
    return (libc.mount(None, b"/", None, private, None) == 0
            and libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, f"size={size}".encode()) == 0)


def received(fd):
    """The slab of a descriptor that another process sends."""
    from stoker import _native
    from stoker.torch import _message

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(theirs, [_message._TASK.pack(0, False, 1, 2, 3)], [fd])
        *rest, slab = _native.task_receive(ours.fileno())
    assert rest == [0, 1, 2, 3]
    return slab
