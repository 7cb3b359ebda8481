"""gpt3_memory.py INTERLEAVED PLAIN SLACK BYTES: activations of GPT-3 175B.

Korthikanti et al., arXiv 2205.05198: the first of 8 stages holds 12 layers for 8
microbatches under 1F1B and 1 + 7 / 24 as much with 3 chunks: 96 and 124 layers.
What the two plans differ in are activations of 28 layers, and the allocator's
slack on what is allocated.
"""
import json
import sys

interleaved, plain = (json.load(open(name))["memory"][0]["parts"]
                      for name in sys.argv[1:3])
slack, wanted = float(sys.argv[3]), float(sys.argv[4])
saved = interleaved["saved"] - plain["saved"]
p2p = interleaved["p2p"] - plain["p2p"]
framework = interleaved["framework"] - plain["framework"]
beside = (framework - slack * (saved + p2p)) / (1 + slack)
activations = (saved + beside) / 28 * 124 / 2 ** 30
assert abs(activations / wanted - 1) < 2e-3, activations
