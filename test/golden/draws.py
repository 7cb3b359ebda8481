"""Initial weights and data as a compiled program draws them, with numpy."""
import statistics

import numpy as np


def fnv1a(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


def philox(seed, name, indices):
    """First two words of Philox4x32-10 for each index of the stream `name`."""
    mask = np.uint64(0xffffffff)
    shift = np.uint64(32)
    digest = fnv1a(name)
    k0 = np.uint64((seed ^ digest) & 0xffffffff)
    k1 = np.uint64(((seed >> 32) ^ (digest >> 32)) & 0xffffffff)
    c = [indices & mask, indices >> shift, np.zeros_like(indices),
         np.zeros_like(indices)]
    for _ in range(10):
        a = np.uint64(0xD2511F53) * c[0]
        b = np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> shift) ^ c[1] ^ k0, b & mask, (a >> shift) ^ c[3] ^ k1,
             a & mask]
        k0 = (k0 + np.uint64(0x9E3779B9)) & mask
        k1 = (k1 + np.uint64(0xBB67AE85)) & mask
    return c[0], c[1]


def normal(seed, name, count, std):
    """Wichura's AS 241, which is what NormalDist.inv_cdf computes."""
    w0, w1 = philox(seed, name, np.arange(count, dtype=np.uint64))
    u = ((w0 >> np.uint64(5)).astype(np.float64) * 2.0**26
         + (w1 >> np.uint64(6)).astype(np.float64) + 0.5) / 2.0**53
    inverse = statistics.NormalDist().inv_cdf
    return np.array([inverse(float(x)) for x in u]) * std


def batch(run, data, step):
    """Tokens and labels of a step, [global batch, sequence]."""
    first = step * run["global_batch"]
    indices = np.arange(first, first + run["global_batch"], dtype=np.uint64)
    w0, w1 = philox(run["seed"], "data", indices)
    drawn = (w1 << np.uint64(32)) | w0
    length = run["sequence"]
    starts = drawn % np.uint64(len(data) - length - 1)
    rows = np.stack([data[int(s):int(s) + length + 1] for s in starts])
    return rows[:, :-1].copy(), rows[:, 1:].copy()
