#include "cost_model/base/Failure.h"

#include <map>

namespace shardwright::cost {

std::vector<std::string> lines(const Failure &failure) {
  std::vector<std::string> lines;
  std::map<Diag, int64_t> counts;
  for (const Message &message : failure.messages)
    if (++counts[message.id] <= mostOfAKind)
      lines.push_back("error: " + message.tagged());
  for (const auto &[id, count] : counts)
    if (count > mostOfAKind)
      lines.push_back(
          "error: " +
          Message(id, "and " + std::to_string(count - mostOfAKind) +
                          " more of this kind")
              .tagged());
  for (const std::string &text : failure.notes)
    lines.push_back("note: " + text);
  return lines;
}

} // namespace shardwright::cost
