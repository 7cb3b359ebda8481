#!/usr/bin/env python3
"""Runs the tour of README.md: its commands, in order, as a reader would.

Every ```sh block is run in one folder; the lines of the ```text block behind it
must be among what it says, in that order. `...` stands for anything, and any
blanks for any blanks. Commands elsewhere in the README name files that exist.
"""
import os
import re

from installed import Shell, arguments

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pattern(line):
    words = re.split(r"\s+", line.strip())
    return r"\s+".join(re.escape(word).replace(r"\.\.\.", ".*") for word in words)


def main():
    args = arguments()
    readme = (args.source / "README.md").read_text()
    tour = readme.split("## Five-minute tour")[1].split("\n## ")[0]
    sh = Shell(args.work, args.prefix)
    for name in ("examples", "test", "README.md"):
        os.symlink(args.source / name, args.work / name)
    os.symlink(args.build, args.work / "build")

    commands = lines = 0
    for language, text in BLOCK.findall(tour):
        if language == "sh":
            sh.run("bash", "-euo", "pipefail", "-c", text)
            commands += len(text.strip().splitlines())
            rest = sh.said
        else:
            sh.claim(language == "text", "blocks of sh and text in the tour")
            for line in text.strip().splitlines():
                found = re.search(r"(?m)^\s*" + pattern(line), rest)
                sh.claim(found, f"a line like {line!r}, behind those before it")
                rest = rest[found.end():]
                lines += 1
    sh.last = "README.md"
    sh.claim(commands >= 8 and lines >= 8,
             f"a tour, but got {commands} commands and {lines} lines of output")

    # Outside of the tour: whatever is named as a path of the clone is there.
    for path in re.findall(r"`((?:cmake|cost_model|runtime|dialects|passes|compiler"
                           r"|tools|test|examples)/[\w./-]*)`", readme):
        sh.claim((args.source / path.rstrip("/")).exists()
                 or list(args.source.glob(path + ".*")), f"{path} to exist")


if __name__ == "__main__":
    main()
