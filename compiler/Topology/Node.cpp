#include "compiler/Topology/Node.h"

#include <cctype>

namespace shardwright::topology {

using namespace cost;

std::string_view name(Path path) {
  switch (path) {
  case Path::Pix:
    return "PIX";
  case Path::Pxb:
    return "PXB";
  case Path::Phb:
    return "PHB";
  case Path::Node:
    return "NODE";
  case Path::Sys:
    return "SYS";
  }
  return "";
}

std::string_view name(Format format) {
  switch (format) {
  case Format::SmiTable:
    return "nvidia-smi topo -m";
  case Format::NcclXml:
    return "NCCL topology XML";
  }
  return "";
}

std::vector<std::string> plainLines(std::string_view text) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      lines.emplace_back();
      continue;
    }
    // ESC [ 4 m, of which logs sometimes lose the ESC.
    const size_t bracket = c == '\x1b' ? i + 1 : i;
    if (bracket < text.size() && text[bracket] == '[') {
      size_t end = bracket + 1;
      while (end < text.size() &&
             (std::isdigit(static_cast<unsigned char>(text[end])) ||
              text[end] == ';'))
        ++end;
      if (end < text.size() && (text[end] == 'm' || text[end] == 'K') &&
          (c == '\x1b' || end > bracket + 1)) {
        i = end;
        continue;
      }
    }
    if (c != '\r')
      lines.back() += c;
  }
  return lines;
}

bool readNode(std::string_view text, const std::string &file, Node &node,
              Failure &failure) {
  const size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const bool isXml = first != text.npos && text[first] == '<';
  Node read;
  if (!(isXml ? readNcclXml(text, file, read, failure)
              : readSmiTable(text, file, read, failure)))
    return false;
  if (read.gpus.size() + read.nics.size() > mostDevices)
    return refuse(failure, Diag::wrong_topology,
                  file + ": expected at most " + std::to_string(mostDevices) +
                      " GPUs and NICs of one node, but got " +
                      std::to_string(read.gpus.size() + read.nics.size()));
  node = std::move(read);
  return true;
}

} // namespace shardwright::topology
