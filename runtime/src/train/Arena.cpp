//===- Arena.cpp - The one allocation of a rank ---------------------------===//
#include "runtime/src/train/Arena.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

namespace shardwright::runtime {
namespace {

constexpr int64_t alignment = 256;
constexpr int64_t canaryBytes = 256;
constexpr unsigned char poison = 0xff;
constexpr unsigned char canary = 0xc5;

int64_t alignUp(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool isWhole(const char *at) {
  return std::all_of(at, at + canaryBytes, [](char c) {
    return static_cast<unsigned char>(c) == canary;
  });
}

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
    munmap(base, allocated);
}

bool Arena::create(const sw_rt_arena &layout, std::string &why) {
  size = {layout.parameters_bytes, layout.gradients_bytes,
          layout.optimizer_bytes,  layout.slots_bytes,
          layout.p2p_bytes,        layout.comm_bytes,
          layout.workspace_bytes};
  int64_t end = canaryBytes;
  for (int part = 0; part < Parts; ++part) {
    offset[static_cast<size_t>(part)] = end;
    end += alignUp(size[static_cast<size_t>(part)]) + canaryBytes;
  }
  allocated = static_cast<size_t>(end);
  void *memory = mmap(nullptr, allocated, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    why = "expected " + std::to_string(allocated) +
          " bytes of memory for the arena, but the system refused: " +
          std::strerror(errno);
    return false;
  }
  base = static_cast<char *>(memory);
  std::memset(base, canary, allocated);
  for (int part = 0; part < Parts; ++part)
    std::memset(base + offset[static_cast<size_t>(part)], poison,
                static_cast<size_t>(size[static_cast<size_t>(part)]));
  return true;
}

int64_t Arena::totalBytes() const {
  int64_t sum = 0;
  for (int64_t bytes : size)
    sum += bytes;
  return sum;
}

int64_t Arena::highWater(Part part) const {
  int64_t end = size[part];
  while (end > 0 && static_cast<unsigned char>(at(part)[end - 1]) == poison)
    --end;
  return end;
}

std::string Arena::damaged() const {
  std::string parts;
  for (int i = 0; i < Parts; ++i) {
    const Part part = static_cast<Part>(i);
    // What lies behind a part up to its alignment is canary too.
    const char *behind = at(part) + size[part];
    const int64_t length = alignUp(size[part]) - size[part];
    if (isWhole(at(part) - canaryBytes) &&
        isWhole(at(part) + alignUp(size[part])) &&
        std::all_of(behind, behind + length, [](char c) {
          return static_cast<unsigned char>(c) == canary;
        }))
      continue;
    parts += (parts.empty() ? "" : ", ") + std::string(name(part));
  }
  return parts;
}

} // namespace shardwright::runtime
