#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""served.py STOKER WORD...: the command with HOST in its words for a server on the loopback interface, which answers every request with
the file `answer`, and then with `again` until nobody listens, where there is such a file.
"""
import fcntl
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def serve(connection, answer, again):
    connection.settimeout(20)
    asked = b""
    try:
        while b"\r\n\r\n" not in asked:
            more = connection.recv(65536)
            if not more:
                return
            asked = (asked + more)[-100000:]
        connection.sendall(answer)
        while again:
            connection.sendall(again)
            time.sleep(0.005)  # what takes the processor's time is not the client alone
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    except OSError:
        pass
    finally:
        connection.close()


def accept(listener, answer, again):
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], answer, again), daemon=True).start()


def main():
    listener = socket.socket()
    try:  # alone, the interface is down
        fcntl.ioctl(listener, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))
    except OSError:
        pass
    threading.stack_size(256 << 10)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    again = Path("again").read_bytes() if Path("again").exists() else b""
    threading.Thread(target=accept, args=(listener, Path("answer").read_bytes(), again), daemon=True).start()
    host = "127.0.0.1:%d" % listener.getsockname()[1]
    status = subprocess.run([word.replace("HOST", host) for word in sys.argv[1:]]).returncode
    sys.exit(status if status >= 0 else 128 - status)


main()
