#include "test/fuzz/Mutate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <iterator>

namespace shardwright::fuzz {

using Json = nlohmann::ordered_json;

uint64_t Random::next() {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

namespace {

constexpr size_t largestInput = 1 << 20;

const char *const numbers[] = {"0",
                               "1",
                               "-1",
                               "2",
                               "3",
                               "7",
                               "8",
                               "64",
                               "127",
                               "128",
                               "255",
                               "256",
                               "1024",
                               "65535",
                               "65536",
                               "1000003",
                               "2147483647",
                               "2147483648",
                               "-2147483648",
                               "4294967295",
                               "4294967296",
                               "9223372036854775807",
                               "9223372036854775808",
                               "-9223372036854775808",
                               "18446744073709551615",
                               "18446744073709551616",
                               "0.0",
                               "-0.0",
                               "0.5",
                               "1.5",
                               "1e-320",
                               "1e308",
                               "-1e308",
                               "1e999",
                               "1e-9",
                               "3.0",
                               "1E3"};
const char *const words[] = {
    "null",         "true",     "false",       "\"\"", "[]",     "{}",
    "Infinity",     "NaN",      "\"\\u0000\"", "[[]]", "[null]", "{\"\":0}",
    "\"\xc3\xa9\"", "\"\xff\"", "\"\\ud800\"", "-"};

template <size_t N>
const char *oneOf(const char *const (&table)[N], Random &random) {
  return table[random.below(N)];
}

std::string nested(Random &random) {
  const size_t depth = size_t(1) << (4 + random.below(13));
  const bool object = random.oneIn(3);
  std::string text;
  for (size_t i = 0; i < depth; ++i)
    text += object ? "{\"a\":" : "[";
  text += "1";
  text.append(random.oneIn(8) ? depth / 2 : depth, object ? '}' : ']');
  return text;
}

std::string value(Random &random) {
  switch (random.below(8)) {
  case 0:
  case 1:
  case 2:
  case 3:
    return oneOf(numbers, random);
  case 4:
  case 5:
    return oneOf(words, random);
  case 6:
    return random.oneIn(4) ? nested(random) : oneOf(words, random);
  default:
    return '"' + std::string(random.below(300), 'x') + '"';
  }
}

//===- JSON ---------------------------------------------------------------===//

void collect(Json &node, std::vector<Json *> &nodes) {
  nodes.push_back(&node);
  if (node.is_structured())
    for (Json &child : node)
      collect(child, nodes);
}

/// Deeper texts are edited as tokens only: nlohmann::json prints by recursion.
bool isDeep(const std::string &text) {
  constexpr int limit = 1000;
  int depth = 0, deepest = 0;
  for (char c : text) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    deepest = std::max(deepest, depth);
  }
  return deepest > limit;
}

/// A value JSON can hold; the others are for edits of the text.
Json jsonValue(Random &random) {
  for (;;) {
    const std::string text = value(random);
    Json parsed = Json::parse(text, nullptr, false);
    if (!isDeep(text) && !parsed.is_discarded())
      return parsed;
  }
}

void editNode(Json &root, Random &random) {
  std::vector<Json *> nodes;
  collect(root, nodes);
  Json &node = *nodes[random.below(nodes.size())];
  const Json other = *nodes[random.below(nodes.size())];
  const size_t choice = random.below(8);
  if (choice >= 5 && node.is_object() && !node.empty()) {
    const auto at = std::next(
        node.begin(), static_cast<std::ptrdiff_t>(random.below(node.size())));
    if (choice == 5)
      node.erase(at);
    else if (choice == 6)
      node[at.key() + (random.oneIn(2) ? "_" : "2")] = Json(at.value());
    else
      node["unknown"] = jsonValue(random);
    return;
  }
  if (choice >= 5 && node.is_array() && !node.empty()) {
    const size_t at = random.below(node.size());
    if (choice == 5)
      node.erase(at);
    else if (choice == 6)
      node.push_back(Json(node[at]));
    else
      node.insert(node.begin() + static_cast<std::ptrdiff_t>(at), other);
    return;
  }
  // Numbers of nearly the right size reach further than absurd ones.
  if (node.is_number_integer() && random.oneIn(3))
    node = node.get<int64_t>() / 2 + static_cast<int64_t>(random.below(3)) - 1;
  else if (random.oneIn(4))
    node = other;
  else
    node = jsonValue(random);
}

/// Edits the whole, or one line if that is JSON; false if neither is.
bool editJson(std::string &text, Random &random) {
  if (isDeep(text))
    return false;
  size_t begin = 0, end = text.size();
  Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) {
    const size_t middle = random.below(text.size());
    begin = text.rfind('\n', middle);
    begin = begin == std::string::npos ? 0 : begin + 1;
    end = text.find('\n', middle);
    end = end == std::string::npos ? text.size() : end;
    if (begin >= end)
      return false;
    root = Json::parse(text.substr(begin, end - begin), nullptr, false);
    if (root.is_discarded())
      return false;
  }
  editNode(root, random);
  text.replace(begin, end - begin,
               root.dump(-1, ' ', false, Json::error_handler_t::replace));
  return true;
}

//===- Tokens -------------------------------------------------------------===//

struct Span {
  size_t begin = 0, size = 0;
};

std::vector<Span> tokens(const std::string &text) {
  std::vector<Span> spans;
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  };
  size_t closing = text.size(); // of the long string that is being read
  for (size_t i = 0; i < text.size();) {
    if (i == closing) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (text[i] == '"') {
      while (end < text.size() && text[end] != '"')
        end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (isWord(text[i])) {
      while (end < text.size() && isWord(text[end]))
        ++end;
    }
    if (!std::isspace(static_cast<unsigned char>(text[i])))
      spans.push_back({i, end - i});
    // A long string is a text of its own: IR carries JSON.
    if (text[i] == '"' && end - i > 256) {
      closing = end - 1;
      ++i;
    } else {
      i = text[i] == '\\' ? std::min(i + 3, text.size()) : end; // "\22"
    }
  }
  return spans;
}

void editTokens(std::string &text, Random &random) {
  const std::vector<Span> spans = tokens(text);
  if (spans.empty())
    return;
  const Span at = spans[random.below(spans.size())];
  const Span other = spans[random.below(spans.size())];
  const std::string otherText = text.substr(other.begin, other.size);
  switch (random.below(6)) {
  case 0:
    text.erase(at.begin, at.size);
    return;
  case 1:
    text.insert(at.begin, otherText + " ");
    return;
  case 2:
    text.replace(at.begin, at.size, otherText);
    return;
  case 3: {
    // A run of tokens twice: duplicate keys and operations.
    const size_t first = std::min(at.begin, other.begin);
    const size_t last = std::max(at.begin + at.size, other.begin + other.size);
    if (last - first < 4096)
      text.insert(last, text.substr(first, last - first));
    return;
  }
  case 4: {
    // A number, if a few draws find one.
    for (int draw = 0; draw < 20; ++draw) {
      const Span number = spans[random.below(spans.size())];
      if (std::isdigit(static_cast<unsigned char>(text[number.begin]))) {
        text.replace(number.begin, number.size, oneOf(numbers, random));
        return;
      }
    }
    [[fallthrough]];
  }
  default:
    text.replace(at.begin, at.size, value(random));
  }
}

//===- Bytes --------------------------------------------------------------===//

void editBytes(std::string &text, const std::string &other, Random &random) {
  const size_t at = random.below(text.size() + 1);
  const size_t length = std::min(random.below(64), text.size() - at);
  switch (random.below(6)) {
  case 0:
    if (at < text.size())
      text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
    return;
  case 1:
    text.insert(at, 1 + random.below(4), static_cast<char>(random.next()));
    return;
  case 2:
    text.erase(at, length);
    return;
  case 3:
    text.resize(at);
    return;
  case 4:
    text.insert(at, text.substr(at, length));
    return;
  default:
    text = text.substr(0, at) + other.substr(random.below(other.size() + 1));
  }
}

} // namespace

std::string mutate(const std::vector<std::string> &seeds, Random &random) {
  std::string text = seeds.empty() ? "" : seeds[random.below(seeds.size())];
  const size_t edits = 1 + random.below(4);
  for (size_t i = 0; i < edits; ++i) {
    const size_t choice = random.below(8);
    if (choice < 4 && !text.empty() && editJson(text, random))
      continue;
    if (choice < 7)
      editTokens(text, random);
    else
      editBytes(text, seeds.empty() ? "" : seeds[random.below(seeds.size())],
                random);
  }
  if (text.size() > largestInput)
    text.resize(largestInput);
  return text;
}

} // namespace shardwright::fuzz
