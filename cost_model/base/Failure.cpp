#include "cost_model/base/Failure.h"

#include <map>

namespace shardwright::cost {

std::string cut(const std::string &text) {
  if (text.size() <= longestLine)
    return text;
  // The end often says what was wanted. Never inside a character of UTF-8.
  const auto isInside = [&](size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  size_t begin = longestLine * 3 / 4, end = text.size() - longestLine / 5;
  while (begin > 0 && isInside(begin))
    --begin;
  while (end < text.size() && isInside(end))
    ++end;
  return text.substr(0, begin) + " ... (" + std::to_string(end - begin) +
         " bytes left out) ... " + text.substr(end);
}

std::vector<std::string> lines(const Failure &failure) {
  std::vector<std::string> lines;
  std::map<Diag, int64_t> counts;
  for (const Message &message : failure.messages)
    if (++counts[message.id] <= mostOfAKind)
      lines.push_back(
          "error: " +
          (message.id == Diag::internal_error
               ? message
               : Message(message.id, cut(message.text)))
              .tagged());
  for (const auto &[id, count] : counts)
    if (count > mostOfAKind)
      lines.push_back(
          "error: " +
          Message(id, "and " + std::to_string(count - mostOfAKind) +
                          " more of this kind")
              .tagged());
  for (const std::string &text : failure.notes)
    lines.push_back("note: " + cut(text));
  return lines;
}

} // namespace shardwright::cost
