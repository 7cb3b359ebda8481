"""fewest.py ANSWER MODEL: the GPUs that `explain --json` names for a plan that does not fit
(8 TP, all recomputed, 30 sequences) fit, and no fewer do of those that divide the batch."""
import json
import re
import subprocess
import sys

changes = json.load(open(sys.argv[1]))["changes_that_fit"]
named = [re.match(r"(\d+) GPUs: (\d+) data ranks, ZeRO 1 over", change["change"])
         for change in changes]
gpus, most = [(int(match[1]), int(match[2])) for match in named if match][0]
assert gpus == 8 * most


def fits(ranks):
    answer = subprocess.run(
        ["shardwright", "predict", sys.argv[2], "--cluster", "dgx-h100", "--tp", "8", "--dp",
         str(ranks), "--zero", "1", "--sp", "--recompute", "full", "--global-batch", "30",
         "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(answer)["fits"]


assert fits(most)
assert most not in (4, 8, 16), "no test: a doubling is the fewest"
for ranks in range(3, most):
    assert 30 % ranks != 0 or not fits(ranks), ranks
