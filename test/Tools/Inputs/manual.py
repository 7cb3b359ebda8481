"""manual.py: every flag of `shardwright VERB --help` is in the manual, in the
completions of three shells, and every help has examples whose flags exist.

What there is, is read from --help, which CLI11 writes; pages and completions are
ours. Run in a folder that gets the pages.
"""
import re
import shutil
import subprocess
import sys

problems = []


def claim(holds, what):
    if not holds:
        problems.append("expected " + what)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          **options)
    claim(done.returncode == 0, f"{' '.join(command)} to succeed: {done.stderr}")
    return done.stdout


def flags_of(help_text):
    """Names at the starts of the lines of options, before the descriptions."""
    names = set()
    for line in help_text.splitlines():
        if re.match(r"  -", line):
            names.update(re.findall(r"(?<![\w-])--?[a-z][a-z-]*",
                                    re.split(r" {2,}", line.strip())[0]))
    return names


def complete(script, *words):
    """What bash offers for the last of `words`."""
    call = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            '_shardwright; printf "%s\\n" "${COMPREPLY[@]}"')
    return set(run("bash", "-c", call, "bash", script, *words).split())


def examples_of(help_text):
    """Commands below "Example(s):", indented."""
    lines = re.split(r"^Examples?:$", help_text, flags=re.MULTILINE)
    return [line.strip() for line in lines[-1].splitlines()
            if line.startswith("  ")] if len(lines) > 1 else []


root = run("shardwright", "--help")
verbs = re.findall(r"^  (\w[\w-]*)  +\S", root.split("Subcommands:")[1]
                   .split("\n\n")[0], re.MULTILINE)
claim({"inspect", "plan", "predict", "compile", "validate"} <= set(verbs),
      f"the verbs, but got {verbs}")
claim("man" not in verbs, "the verb of the build to be hidden")

run("shardwright", "man", ".")
scripts = {}
for shell in ("bash", "zsh", "fish"):
    scripts[shell] = "completion." + shell
    with open(scripts[shell], "w") as file:
        file.write(run("shardwright", "completion", shell))
    if shutil.which(shell):
        run(shell, "-n", scripts[shell])
texts = {shell: open(name).read() for shell, name in scripts.items()}

claim(set(verbs) <= complete(scripts["bash"], "shardwright", ""),
      "bash to offer every verb")
claim(complete(scripts["bash"], "shardwright", "pre") == {"predict"},
      "bash to complete 'pre'")
for words in (["--cluster", ""], ["--cluster", "="], ["--cluster", "=", "dgx-h"]):
    claim("dgx-h100" in complete(scripts["bash"], "shardwright", "plan", *words),
          f"bash to offer the shipped clusters after {words}")
claim("dgx-h100" in complete(scripts["bash"], "shardwright", "import-topology",
                             "--like", ""),
      "bash to offer the shipped clusters after --like")
claim(not complete(scripts["bash"], "shardwright", "plan", "mod"),
      "bash to leave files to the shell")

checked = 0
for verb in [None, *verbs]:
    help_text = root if verb is None else run("shardwright", verb, "--help")
    name = "shardwright" + (f"-{verb}" if verb else "")
    flags = flags_of(help_text)
    claim("--help" in flags, f"flags in the help of {name}")
    with open(name + ".1") as file:
        page = file.read().replace("\\-", "-")
    bold = set(re.findall(r"\\fB(-[^\\]*)\\fR", page))
    for flag in flags:
        claim(flag in bold, f"{flag} in {name}.1")
    claim(bold == flags, f"no flags in {name}.1 that there are not: {bold - flags}")
    if verb:
        claim(f"\\fB{name}\\fR(1)".replace("-", "\\-") in
              open("shardwright.1").read(), f"{name} in shardwright.1")
        offered = complete(scripts["bash"], "shardwright", verb, "-")
        claim(offered == flags, f"bash to offer the flags of {verb}, "
                                f"but it differs in {offered ^ flags}")
        zsh = texts["zsh"].split(f"\n  {verb})\n")[1].split(";;")[0]
        for flag in flags:
            claim(re.search(rf"'\*{flag}[=+\[]", zsh), f"zsh to offer {verb} {flag}")
        fish = [line for line in texts["fish"].splitlines()
                if f"seen_subcommand_from {verb}'" in line]
        for flag in flags:
            word = (" -l " + flag[2:]) if flag.startswith("--") else " -s " + flag[1:]
            claim(any(word + " " in line for line in fish),
                  f"fish to offer {verb} {flag}")
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-Tascii", name + ".1"],
                              capture_output=True, text=True, check=False)
        claim(not done.stderr, f"groff to have nothing to say of {name}.1: "
                               f"{done.stderr}")
    # Examples: at least one, and of this verb, with flags that it has.
    examples = examples_of(help_text)
    ours = [e for e in examples if re.search(r"\bshardwright ", e)]
    claim(ours, f"an example in {name} --help")
    for example in ours:
        used = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", example))
        known = flags if verb else set().union(
            *(flags_of(run("shardwright", v, "--help")) for v in verbs))
        claim(used <= known, f"flags that exist in: {example}")
        claim(verb is None or f"shardwright {verb}" in example,
              f"an example of {verb}, but got: {example}")
    checked += len(flags)

claim(checked > 60, f"more than 60 flags, but got {checked}")
print(f"{checked} flags of {len(verbs)} verbs")
for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
