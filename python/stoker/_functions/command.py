# SPDX-License-Identifier: Apache-2.0
"""The command of the package as a function: arguments -> the object that it prints as JSON, or an exception.

It runs in a process of its own. On a terminal it shows its progress there; what it says otherwise goes to
logging.getLogger("stoker"). An interrupt, or any other exception meanwhile, ends it at once.
"""
from __future__ import annotations

import json
import logging
import os
import re
import selectors
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from stoker import _native
from stoker.__main__ import command, environment

_FLAG = re.compile(r"(?<![\w./-])--(?:\[no-\])?([a-z][a-z0-9-]*)")
# Of a line on standard error, behind what takes a progress bar away.
_SAID = re.compile(rb"^(.*\x1b\[K)?stoker: (?:\x1b\[[0-9;]*m)?(error|warning)?(?:: )?(?:\x1b\[m)?(.*)$", re.DOTALL)
_GRACE = 0.05  # seconds to end in when it is told to


def _terminal() -> int | None:
    """The descriptor of standard error where that is a terminal, and nobody (a notebook, a test) has put another in its place."""
    stream = sys.stderr
    own = stream is sys.__stderr__
    if stream is None or not own:
        return None
    try:
        number = sys.stderr.fileno()
    except (OSError, ValueError):
        return None
    return number if os.isatty(number) else None


def _open_terminal(like: int) -> tuple[int, int]:
    """A terminal as wide as another, whose output comes as it was written: (our end, the other)."""
    import fcntl
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, fcntl.ioctl(like, termios.TIOCGWINSZ, b"\0" * 8))
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    return ours, theirs


class _Said:
    """What the command says while it runs."""

    def __init__(self, terminal: int | None, unsaid: Sequence[str]) -> None:
        self.errors: list[str] = []
        self._terminal = terminal
        self._unsaid = unsaid
        self._rest = b""

    def take(self, part: bytes) -> None:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            self._line(line)
        if self._terminal is not None and self._rest.startswith(b"\r"):  # a progress bar
            os.write(self._terminal, self._rest)
            self._rest = b""

    def _line(self, line: bytes) -> None:
        found = _SAID.match(line)
        kind, text = (found[2], found[3].decode("utf-8", "replace")) if found else (None, line.decode("utf-8", "replace"))
        if kind == b"error":
            self.errors.append(text)
        if text in self._unsaid:
            return
        if self._terminal is not None:
            os.write(self._terminal, (found[1] or b"") if found and kind == b"error" else line + b"\n")
        elif kind != b"error":
            logging.getLogger("stoker").log(logging.WARNING if kind else logging.INFO, "%s", text)


def _read_all(process: subprocess.Popen[bytes], said: _Said, messages: int) -> bytes:
    """Standard output, whole; `messages` are handed over as they come."""
    assert process.stdout is not None
    result = []
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout.fileno(), selectors.EVENT_READ)
        selector.register(messages, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    part = os.read(key.fd, 1 << 16)
                except OSError:  # EIO: the other end of a terminal is closed
                    part = b""
                if not part:
                    selector.unregister(key.fd)
                elif key.fd == messages:
                    said.take(part)
                else:
                    result.append(part)
    return b"".join(result)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Tell it to stop, and end it if it does not at once: whatever it writes is either whole or not there."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _run(arguments: Sequence[str], given: bytes, said: _Said, terminal: int | None) -> tuple[int, bytes]:
    ours, theirs = os.pipe() if terminal is None else _open_terminal(terminal)
    try:
        process = subprocess.Popen(
            [command(), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs, env=environment()
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    assert process.stdin is not None and process.stdout is not None
    try:
        try:
            with process.stdin as stdin:
                stdin.write(given)
        except BrokenPipeError:  # it has ended, and says why
            pass
        result = _read_all(process, said, ours)
        return process.wait(), result
    except BaseException:
        _end(process)
        raise
    finally:
        process.stdout.close()
        os.close(ours)


def _of_keywords(text: str) -> str:
    """What a command says of its flags, of keywords."""
    text = re.sub(r" \('stoker \w+ --help' lists all options\)$", "", text)
    return _FLAG.sub(lambda flag: flag[1].replace("-", "_"), text)


def _failure(code: int, result: Any, errors: Sequence[str]) -> _native.Error:
    error = result.get("error") if isinstance(result, dict) else None
    if isinstance(error, dict):
        found = (error["sample"],) if "sample" in error else ()
        return _native.error(error["status"], _of_keywords(error["text"]), error["key"], *found)
    text = _of_keywords(errors[-1]) if errors else ""
    if code < 0:
        import signal

        return _native.error("STK_EINTERNAL", f"the process of the command is killed by signal: {signal.strsignal(-code)}")
    return _native.error("STK_EINVAL" if code == 2 else "STK_ECANCELED" if code >= 128 else "STK_EINTERNAL", text)


def run(
    arguments: Sequence[str], given: object = None, unsaid: Sequence[str] = ()
) -> tuple[Any, _native.Error | None]:
    """What a command says with --format json, and its failure. `given` is its configuration, on standard input; `unsaid`
    are remarks that are not shown."""
    if sys.stderr:
        sys.stderr.flush()
    terminal = _terminal()
    said = _Said(terminal, unsaid)
    where = [] if given is None else ["--config", "-"]
    stdin = b"" if given is None else json.dumps(given).encode()
    end = arguments.index("--") if "--" in arguments else len(arguments)
    code, output = _run([arguments[0], "--format", "json", *arguments[1:end], *where, *arguments[end:]], stdin, said, terminal)
    result = json.loads(output) if output else None
    return result, None if code == 0 else _failure(code, result, said.errors)


def result_of(arguments: Sequence[str], given: object = None, unsaid: Sequence[str] = ()) -> Any:
    """What run() says; a failure is raised."""
    result, failure = run(arguments, given, unsaid)
    if failure:
        raise failure
    return result
