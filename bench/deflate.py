#!/usr/bin/env python3
"""What permessage-deflate (RFC 7692) would cost and save for the envelopes of a room.

usage: salon history room:alpha --json --limit 500 > envelopes.jsonl; bench/deflate.py envelopes.jsonl
"""

import sys
import time
import zlib

REPEATS = 50
ROUNDS = 5


def measure(messages, level, takeover, window=15, memory=8):
    """The share of the bytes that is left, and the CPU time for a message in microseconds (the best of some rounds)."""
    best = float("inf")
    for _ in range(ROUNDS):
        began, written = time.process_time(), 0
        compressor = zlib.compressobj(level, zlib.DEFLATED, -window, memory)
        for _ in range(REPEATS):
            for message in messages:
                if not takeover:
                    compressor = zlib.compressobj(level, zlib.DEFLATED, -window, memory)
                # RFC 7692 §7.2.1: the last four bytes of the flush are left out.
                written += len(compressor.compress(message) + compressor.flush(zlib.Z_SYNC_FLUSH)) - 4
        best = min(best, time.process_time() - began)
    return written / REPEATS / sum(map(len, messages)), best / REPEATS / len(messages) * 1e6


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as file:
        messages = [line.rstrip(b"\n") for line in file]
    print(f"{len(messages)} envelopes, {sum(map(len, messages)) // len(messages)} bytes each on average")
    for level, takeover, window, memory in [(1, False, 12, 5), (1, False, 15, 8), (6, False, 15, 8), (1, True, 15, 8)]:
        left, micros = measure(messages, level, takeover, window, memory)
        how = "for each reader, with context takeover" if takeover else "once for all, without context takeover"
        print(f"level {level}, window {2**window // 1024} KiB, {how}: {left:.0%} of the bytes, {micros:.1f} µs")


if __name__ == "__main__":
    main()
