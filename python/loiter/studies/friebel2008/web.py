"""The other real work: Debian's Apache and the clients that load it, in one guest."""

from __future__ import annotations

REQUESTS_A_CLIENT = 50
"""One after the other, each on a connection of its own."""


def command(clients: int, chosen: list[str]) -> str:
    """What the guest runs: it chooses its locks, serves a page from tmpfs to so many clients at a time, and sees that
    each request was served."""
    requests = clients * REQUESTS_A_CLIENT
    lines = [
        "set -e",
        *chosen,
        "mount -t tmpfs tmpfs /var/www/html",
        "echo page > /var/www/html/index.html",
        "apache2ctl start",
        "for try in 1 2 3 4 5 6 7 8 9; do curl --silent --fail http://127.0.0.1/ > /dev/null && break; sleep 0.2; done",
        f"ab -q -n {requests} -c {clients} http://127.0.0.1/ > /tmp/served",
        f"grep -q '^Complete requests: *{requests}$' /tmp/served",
        "grep -q '^Failed requests: *0$' /tmp/served",
        "echo checked",
        "",
    ]
    return "\n".join(lines)
