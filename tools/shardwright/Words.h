//===- Words.h - Lists of words for help and messages -----------*- C++ -*-===//
//
// What a flag takes is told from the table that reads it.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_WORDS_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_WORDS_H

#include <cstddef>
#include <iterator>
#include <string>

namespace shardwright::tools {

/// "a, b or c": what `text` makes of each element.
template <typename Range, typename Text>
std::string wordsOf(const Range &range, Text text) {
  std::string words;
  const size_t count = std::size(range);
  size_t i = 0;
  for (const auto &element : range) {
    if (i > 0)
      words += i + 1 == count ? " or " : ", ";
    words += text(element);
    ++i;
  }
  return words;
}

/// The same of enumerators, which have a name().
template <typename Range> std::string namesOf(const Range &range) {
  return wordsOf(range, [](auto one) { return std::string(name(one)); });
}

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_WORDS_H
