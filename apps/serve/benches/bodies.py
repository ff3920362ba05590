#!/usr/bin/env python3
"""The memory of a server during and after unfinished request bodies.

    python apps/serve/benches/bodies.py URL --pid PID [--clients 200] [--bytes 1048576] [--rounds 3]

In each round, clients send all but the end of a body and disconnect. Prints the resident memory of the server's
process before, during and after, in MiB. The exit code is 1 if it is more than 16 MiB above the start two seconds
after the last round.
"""

import argparse
import socket
import sys
import time
import urllib.parse

MARGIN_MIB = 16


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    raise SystemExit(f"/proc/{pid}/status has no VmRSS")


def unfinished(host, port, length):
    client = socket.create_connection((host, port))
    client.settimeout(10)
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    )
    client.sendall(head.encode())
    return client


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    url = urllib.parse.urlsplit(options.url)
    before = resident(options.pid)
    print(f"before: {before:.0f} MiB")
    for number in range(options.rounds):
        clients = [unfinished(url.hostname, url.port, options.bytes) for _ in range(options.clients)]
        for client in clients:
            try:
                client.sendall(b" " * (options.bytes - 1))
            except OSError:
                pass  # it was refused: the budget of all bodies is used up
        time.sleep(1)
        during = resident(options.pid)
        for client in clients:
            client.close()
        time.sleep(2)
        after = resident(options.pid)
        print(f"round {number + 1}: {during:.0f} MiB during, {after:.0f} MiB after")
    sys.exit(after > before + MARGIN_MIB)


if __name__ == "__main__":
    main()
