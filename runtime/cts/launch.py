#!/usr/bin/env python3
"""Starts N processes as torchrun does and fails if one of them does.

usage: launch.py N PROGRAM [ARGUMENTS...]

Sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. Rank 0 keeps
stdout; what others write is shown only if they fail.
"""
import os
import socket
import subprocess
import sys
import tempfile
import time


def free_port():
    """A port whose successor is free too: the runtime listens there."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def main(count, command):
    port = free_port()
    processes = []
    for rank in range(count):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                           WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port))
        if os.environ.get("SHARDWRIGHT_HOSTID_PER_RANK"):
            # NCCL refuses two ranks of one host on one GPU.
            environment["NCCL_HOSTID"] = f"rank{rank}"
        log = None if rank == 0 else tempfile.TemporaryFile()
        processes.append((subprocess.Popen(command, env=environment, stdout=log,
                                           stderr=None if rank == 0 else log), log))
    # As launchers do: when one has failed, the others get a moment, then end.
    failed_at = None
    while any(process.poll() is None for process, _ in processes):
        time.sleep(0.02)
        if failed_at is None and any(process.poll() for process, _ in processes):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > 3:
            for process, _ in processes:
                if process.poll() is None:
                    process.kill()
    worst = 0
    for rank, (process, log) in enumerate(processes):
        code = process.returncode
        worst = worst or code
        if code and log:
            log.seek(0)
            sys.stderr.write(f"rank {rank} ended with {code}:\n")
            sys.stderr.write(log.read().decode(errors="replace"))
    return worst if 0 <= worst < 256 else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
