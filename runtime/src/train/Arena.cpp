//===- Arena.cpp - The one allocation of a rank ---------------------------===//
#include "runtime/src/train/Arena.h"

#include <algorithm>
#include <vector>

namespace shardwright::runtime {
namespace {

constexpr int64_t alignment = 256;
constexpr int64_t canaryBytes = 256;
constexpr unsigned char poison = 0xff;
constexpr unsigned char canary = 0xc5;

int64_t alignUp(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Bytes that are looked at together: what a device hands over at a time.
constexpr int64_t pieceBytes = 1 << 20;

} // namespace

const char *Arena::name(Part part) {
  switch (part) {
  case Parameters:
    return "parameters";
  case Gradients:
    return "gradients";
  case Optimizer:
    return "optimizer";
  case Slots:
    return "saved";
  case P2p:
    return "p2p";
  case Comm:
    return "comm";
  case Workspace:
    return "workspace";
  case Parts:
    break;
  }
  return "unknown";
}

Arena::~Arena() {
  if (base)
    device->release(base, allocated);
}

bool Arena::create(const sw_rt_arena &layout, Device &owner, std::string &why) {
  size = {layout.parameters_bytes, layout.gradients_bytes,
          layout.optimizer_bytes,  layout.slots_bytes,
          layout.p2p_bytes,        layout.comm_bytes,
          layout.workspace_bytes};
  int64_t end = canaryBytes;
  for (int part = 0; part < Parts; ++part) {
    offset[static_cast<size_t>(part)] = end;
    end += alignUp(size[static_cast<size_t>(part)]) + canaryBytes;
  }
  device = &owner;
  allocated = end;
  base = device->allocate(allocated, why);
  if (!base) {
    why = "expected " + std::to_string(allocated) +
          " bytes of memory for the arena, but " + why;
    return false;
  }
  sw_rt_status status = device->fill(base, canary, allocated);
  for (int i = 0; i < Parts && status == SW_RT_OK; ++i) {
    const Part part = static_cast<Part>(i);
    status = device->fill(at(part), poison, bytes(part));
  }
  if (status != SW_RT_OK)
    why = "expected to fill the arena, but the device failed";
  return status == SW_RT_OK;
}

int64_t Arena::totalBytes() const {
  int64_t sum = 0;
  for (int64_t bytes : size)
    sum += bytes;
  return sum;
}

bool Arena::holds(int64_t first, int64_t last, unsigned char value) const {
  for (int64_t from = first; from < last; from += pieceBytes) {
    const int64_t length = std::min(pieceBytes, last - from);
    Mirror piece(*device, base + from, length, /*read=*/true);
    if (piece.getStatus() != SW_RT_OK ||
        !std::all_of(piece.data(), piece.data() + length, [&](char c) {
          return static_cast<unsigned char>(c) == value;
        }))
      return false;
  }
  return true;
}

int64_t Arena::highWater(Part part) const {
  for (int64_t end = size[part]; end > 0;) {
    const int64_t length = std::min(pieceBytes, end);
    Mirror piece(*device, at(part) + end - length, length, /*read=*/true);
    int64_t used = piece.getStatus() == SW_RT_OK ? length : 0;
    while (used > 0 &&
           static_cast<unsigned char>(piece.data()[used - 1]) == poison)
      --used;
    if (used > 0)
      return end - length + used;
    end -= length;
  }
  return 0;
}

std::string Arena::damaged() const {
  std::string parts;
  for (int i = 0; i < Parts; ++i) {
    const Part part = static_cast<Part>(i);
    const int64_t first = offset[static_cast<size_t>(i)];
    const int64_t last = first + size[static_cast<size_t>(i)];
    // What lies behind a part up to its alignment is canary too.
    if (!holds(first - canaryBytes, first, canary) ||
        !holds(last, first + alignUp(last - first) + canaryBytes, canary))
      parts += (parts.empty() ? "" : ", ") + std::string(name(part));
  }
  return parts;
}

} // namespace shardwright::runtime
