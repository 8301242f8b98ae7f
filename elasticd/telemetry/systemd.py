"""Notifies systemd of the daemon's state: sd_notify(3), which is a datagram to a socket.

Knows the protocol; does nothing when systemd did not start us.
"""

import os
import socket
import time


class Notifier:
    """The service manager's socket, if there is one."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", str(os.getpid()))
        self.watchdog = int(usec) / 1e6 if usec.isdigit() and pid == str(os.getpid()) else None
        """Seconds within which `alive` must be called each time; None: no watchdog."""

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.setblocking(False)
            try:
                connection.sendto(text.encode(), self._address)
            except OSError:  # a service manager that does not listen is no reason to stop or to wait
                return

    def ready(self, status: str) -> None:
        """Say that start-up, or a reload, has ended."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that a reload begins; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Feed the watchdog: the loop runs."""
        self._send("WATCHDOG=1")
