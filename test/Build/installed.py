"""What the scripts of this folder share: arguments, commands, claims.

Not a test. A claim that does not hold ends the script with exit code 1 and the
output of the last command.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys


def arguments(*extra):
    parser = argparse.ArgumentParser()
    for name in ("source", "build", "prefix", "work", "cmake", *extra):
        parser.add_argument("--" + name, required=True, type=pathlib.Path)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    return args


class Shell:
    """Runs commands in a folder, with the installed tools first in PATH."""

    def __init__(self, folder, prefix, **environment):
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{prefix}/bin:{os.environ['PATH']}",
            "OPENBLAS_NUM_THREADS": "1",
            **environment,
        }
        # What a user has set must not decide what these tests see.
        for name in ("DESTDIR", "Shardwright_DIR", "MAKEFLAGS", "MFLAGS",
                     "CMAKE_PREFIX_PATH"):
            if name not in environment:
                self.environment.pop(name, None)
        self.said = ""

    def run(self, *command, code=0, folder=None):
        done = subprocess.run([str(word) for word in command],
                              cwd=folder or self.folder, env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False)
        self.said = done.stdout
        self.last = " ".join(str(word) for word in command)
        if code is not None:
            self.claim(done.returncode == code,
                       f"exit code {code}, but got {done.returncode}")
        return done.returncode

    def claim(self, holds, what):
        if holds:
            return
        print(f"$ {self.last}\n{self.said}\nexpected {what}", file=sys.stderr)
        sys.exit(1)

    def says(self, text):
        self.claim(text in self.said, f"the output to say {text!r}")


def edit(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, f"{path}: {old!r} occurs {text.count(old)} times"
    path.write_text(text.replace(old, new))
