"""Products on an H100 that take longer than the shipped figures say.

  slow_products.py SHARDWRIGHT FACTOR ROWS
"""
import json
import subprocess
import sys

shardwright, factor, path = sys.argv[1], float(sys.argv[2]), sys.argv[3]
rows = [{"gpu": "H100-SXM5-80GB", "kernel": "gemm", "dtype": "bf16",
         "shape": {"m": m, "n": n, "k": 8192}, "us": 1}
        for m in (4096, 8192) for n in (4096, 8192, 14336)]


def write(rows):
    with open(path, "w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


write(rows)
said = json.loads(subprocess.run([shardwright, "validate", "--kernels", path, "--json"], check=True,
                                 stdout=subprocess.PIPE).stdout)
for row, predicted in zip(rows, said["rows"]):
    row["us"] = factor * 1e6 * predicted["predicted_seconds"]
# One of another device, too.
write(rows + [dict(rows[0], gpu="A100-80GB")])
