"""Reads safetensors files and measures how far two of them are apart."""
import array
import json
import math
import struct

FORMATS = {"F64": ("d", 8), "F32": ("f", 4)}


def widened(data):
    """bf16, the upper halves of f32, as floats."""
    halves = array.array("H", data)
    return array.array("f", array.array("I", (half << 16 for half in halves)).tobytes())


def read(path):
    """Name -> array of floats."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    body = memoryview(data)[8 + length:]
    result = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "BF16":
            result[name] = widened(bytes(body[begin:end]))
            continue
        values = array.array(FORMATS[entry["dtype"]][0])
        values.frombytes(body[begin:end])
        result[name] = values
    return result


def norm(values):
    return math.hypot(*values)


def differences(reference, found, prefix, tolerance):
    """Messages for every tensor under `prefix` that is further from the
    reference than tolerance * max(|tensor|, 1e-6 |all tensors|)."""
    names = [name for name in reference if name.startswith(prefix)]
    total = math.sqrt(math.fsum(norm(reference[name]) ** 2 for name in names))
    problems = []
    if set(names) != {name for name in found if name.startswith(prefix)}:
        problems.append("%s tensors differ in name: %s" % (prefix, sorted(
            set(names) ^ {name for name in found if name.startswith(prefix)})[:4]))
        return problems
    for name in names:
        if len(reference[name]) != len(found[name]):
            problems.append("%s: expected %d elements, but got %d" % (
                name, len(reference[name]), len(found[name])))
            continue
        distance = math.dist(reference[name], found[name])
        allowed = tolerance * max(norm(reference[name]), 1e-6 * total)
        if not distance <= allowed:  # also true for NaN
            problems.append("%s: expected a difference of at most %.3g, but got %.3g" % (
                name, allowed, distance))
    return problems
