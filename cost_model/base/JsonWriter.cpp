#include "cost_model/base/JsonWriter.h"

namespace shardwright::cost {

namespace {

constexpr size_t columns = 80;

/// Appends `value` on one line. Gives up (and leaves a part behind) as soon as
/// more than `room` characters are needed.
bool appendInline(const nlohmann::json &value, size_t room,
                  std::string &text) {
  const size_t limit = text.size() + room;
  auto fits = [&] { return text.size() <= limit; };
  if (!value.is_structured()) {
    text += value.dump();
    return fits();
  }
  const bool object = value.is_object();
  text += object ? '{' : '[';
  bool first = true;
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (!first)
      text += ", ";
    first = false;
    if (object)
      text += nlohmann::json(it.key()).dump() + ": ";
    if (!fits() || !appendInline(*it, limit - text.size(), text))
      return false;
  }
  text += object ? '}' : ']';
  return fits();
}

/// `column`: where the value starts; `behind`: characters that follow it.
void append(const nlohmann::json &value, size_t indent, size_t column,
            size_t behind, std::string &text) {
  const size_t start = text.size();
  const size_t room = columns > column + behind ? columns - column - behind : 0;
  if (!value.is_structured() || value.empty()) {
    text += value.dump();
    return;
  }
  if (appendInline(value, room, text))
    return;
  text.resize(start);
  const bool object = value.is_object();
  text += object ? "{\n" : "[\n";
  const size_t inner = indent + 2;
  for (auto it = value.begin(); it != value.end();) {
    text.append(inner, ' ');
    size_t at = inner;
    if (object) {
      std::string key = nlohmann::json(it.key()).dump() + ": ";
      at += key.size();
      text += key;
    }
    const nlohmann::json &element = *it;
    const bool last = ++it == value.end();
    append(element, inner, at, last ? 0 : 1, text);
    text += last ? "\n" : ",\n";
  }
  text.append(indent, ' ');
  text += object ? '}' : ']';
}

} // namespace

std::string canonicalJson(const nlohmann::json &value) {
  std::string text;
  append(value, 0, 0, 0, text);
  text += '\n';
  return text;
}

} // namespace shardwright::cost
