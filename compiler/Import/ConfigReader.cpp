#include "compiler/Import/ConfigReader.h"

#include <algorithm>
#include <cmath>

namespace shardwright {

using nlohmann::json;

/// JSON text of `value`, ASCII only, at most 60 characters.
std::string shown(const json &value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true,
                                json::error_handler_t::replace);
  constexpr size_t limit = 60;
  if (text.size() > limit)
    text = text.substr(0, limit) + "...";
  return text;
}

/// `text` without quotes, safe to print.
static std::string printable(std::string_view text) {
  std::string quoted = shown(json(std::string(text)));
  if (quoted.size() >= 2 && quoted.back() == '"')
    return quoted.substr(1, quoted.size() - 2);
  return quoted.substr(1);
}

/// Escapes a member name for a JSON pointer (RFC 6901).
static std::string escaped(std::string_view key) {
  std::string result;
  for (char c : key) {
    if (c == '~')
      result += "~0";
    else if (c == '/')
      result += "~1";
    else
      result += c;
  }
  return printable(result);
}

namespace {
/// Builds the value while it watches for duplicate keys and depth.
class StrictSax : public nlohmann::detail::json_sax_dom_parser<json> {
  using Base = nlohmann::detail::json_sax_dom_parser<json>;

public:
  explicit StrictSax(json &root) : Base(root, /*allow_exceptions=*/false) {}

  bool start_object(std::size_t count) {
    path.push_back({{}, "", 0, /*array=*/false});
    return enter() && Base::start_object(count);
  }
  bool start_array(std::size_t count) {
    path.push_back({{}, "", 0, /*array=*/true});
    return enter() && Base::start_array(count);
  }
  bool end_object() {
    path.pop_back();
    return Base::end_object();
  }
  bool end_array() {
    path.pop_back();
    return Base::end_array();
  }
  bool key(std::string &text) {
    path.back().key = text;
    if (!path.back().seen.insert(text).second)
      duplicates.push_back(pointer());
    return Base::key(text);
  }
  bool parse_error(std::size_t, const std::string &,
                   const nlohmann::detail::exception &error) {
    message = error.what();
    return false;
  }

  std::vector<std::string> duplicates;
  std::string message;

private:
  struct Level {
    std::set<std::string> seen;
    std::string key;
    int64_t index;
    bool array;
  };
  bool enter() {
    constexpr size_t depthLimit = 64;
    if (path.size() <= depthLimit)
      return true;
    message = "more than 64 levels of nesting";
    return false;
  }
  std::string pointer() const {
    std::string result;
    for (const Level &level : path)
      if (!level.array)
        result += "/" + escaped(level.key);
    return result;
  }
  std::vector<Level> path;
};
} // namespace

/// Infinity, -Infinity and NaN, which Python writes though JSON has no such
/// numbers, as strings: a key that matters then says what it found.
static std::string quoteNonFinite(std::string_view text) {
  std::string result;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inString && text[i] == '\\') {
      result += text.substr(i, 2);
      ++i;
      continue;
    }
    if (text[i] == '"')
      inString = !inString;
    std::string_view found;
    if (!inString)
      for (std::string_view word : {"-Infinity", "Infinity", "NaN"})
        if (text.substr(i).starts_with(word)) {
          found = word;
          break;
        }
    if (found.empty()) {
      result += text[i];
      continue;
    }
    result += '"' + std::string(found) + '"';
    i += found.size() - 1;
  }
  return result;
}

std::optional<json> parseStrict(std::string_view text, const std::string &file,
                                Problems &problems) {
  json root;
  StrictSax sax(root);
  // nlohmann::json ends at a NUL and reads nothing behind it.
  const size_t nul = text.find('\0');
  if (nul != text.npos)
    sax.message = "a NUL byte at offset " + std::to_string(nul);
  bool parsed = nul == text.npos &&
                json::sax_parse(text.begin(), text.end(), &sax);
  if (!parsed && nul == text.npos) {
    const std::string quoted = quoteNonFinite(text);
    json other;
    StrictSax again(other);
    if (quoted != text &&
        json::sax_parse(quoted.begin(), quoted.end(), &again)) {
      parsed = true;
      sax.duplicates = again.duplicates;
      root = std::move(other);
    }
  }
  auto fail = [&](const std::string &message,
                  cost::Diag id = cost::Diag::not_json) {
    cost::refuse(problems, id, message);
  };
  if (!parsed) {
    // "[json.exception.parse_error.101] parse error at line 1, ...".
    std::string why = sax.message;
    if (size_t end = why.find("] "); why.starts_with("[") && end != why.npos)
      why = why.substr(end + 2);
    std::string clean;
    for (char c : why)
      clean += c >= 0x20 && c < 0x7f ? c : '?';
    if (clean.size() > 300)
      clean = clean.substr(0, 300) + "...";
    fail(file + ": expected JSON, but got " +
         (text.empty() ? "an empty file" : clean));
    return std::nullopt;
  }
  for (const std::string &where : sax.duplicates)
    fail(file + "#" + where + ": expected each key once, but got it twice",
         cost::Diag::duplicate_key);
  if (!root.is_object()) {
    fail(file + ": expected a JSON object, but got " + root.type_name(),
         cost::Diag::wrong_type);
    return std::nullopt;
  }
  if (!sax.duplicates.empty())
    return std::nullopt;
  return root;
}

std::string ConfigReader::where(std::string_view key) const {
  return file + "#" + pointer + "/" + escaped(key);
}
void ConfigReader::malformed(std::string_view key, const std::string &what,
                             cost::Diag id) {
  cost::refuse(problems, id, where(key) + ": " + what);
}
void ConfigReader::unsupported(std::string_view key, const std::string &what,
                               cost::Diag id) {
  cost::refuse(problems, id, where(key) + ": " + what);
}

bool ConfigReader::has(std::string_view key) const {
  auto it = object.find(std::string(key));
  return it != object.end() && !it->is_null();
}

const json *ConfigReader::find(std::string_view key) {
  known.insert(std::string(key));
  auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

int64_t ConfigReader::size(std::string_view key, int64_t limit,
                           int64_t fallback) {
  const json *value = find(key);
  if (!value && fallback >= 0)
    return fallback;
  std::string wanted =
      "expected an integer from 1 to " + std::to_string(limit) + ", but got ";
  if (!value) {
    malformed(key,
              wanted +
                  (object.contains(std::string(key)) ? "null" : "no such key"),
              cost::Diag::missing_key);
    return 0;
  }
  bool good = value->is_number_unsigned()
                  ? value->get<uint64_t>() >= 1 &&
                        value->get<uint64_t>() <= static_cast<uint64_t>(limit)
                  : value->is_number_integer() && value->get<int64_t>() >= 1 &&
                        value->get<int64_t>() <= limit;
  if (!good) {
    malformed(key, wanted + shown(*value),
              value->is_number_integer() ? cost::Diag::out_of_range
                                         : cost::Diag::wrong_type);
    return 0;
  }
  return value->get<int64_t>();
}

double ConfigReader::number(std::string_view key, double fallback,
                            bool zeroAllowed) {
  const json *value = find(key);
  if (!value)
    return fallback;
  double result = value->is_number() ? value->get<double>() : -1.0;
  if (!std::isfinite(result) || result < 0 || (result == 0 && !zeroAllowed)) {
    malformed(key,
              std::string("expected a number ") +
                  (zeroAllowed ? ">= 0" : "> 0") + ", but got " + shown(*value),
              value->is_number() ? cost::Diag::out_of_range
                                 : cost::Diag::wrong_type);
    return fallback;
  }
  // No model has one near it, and integers up to it are exact in a double.
  constexpr double limit = 1e15;
  if (result > limit) {
    malformed(key, "expected a number <= 1e15, but got " + shown(*value),
              cost::Diag::out_of_range);
    return fallback;
  }
  return result;
}

double ConfigReader::requiredNumber(std::string_view key) {
  if (!has(key)) {
    known.insert(std::string(key));
    malformed(key, "expected a number > 0, but got no such key",
              cost::Diag::missing_key);
    return 1.0;
  }
  return number(key, 1.0);
}

bool ConfigReader::flag(std::string_view key, bool fallback) {
  const json *value = find(key);
  if (!value)
    return fallback;
  if (!value->is_boolean()) {
    malformed(key, "expected true or false, but got " + shown(*value),
              cost::Diag::wrong_type);
    return fallback;
  }
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view key,
                               std::string_view fallback) {
  const json *value = find(key);
  if (!value)
    return std::string(fallback);
  if (!value->is_string()) {
    malformed(key, "expected a string, but got " + shown(*value),
              cost::Diag::wrong_type);
    return std::string(fallback);
  }
  return value->get<std::string>();
}

bool isInert(const json &value) {
  if (value.is_number())
    return value == 0;
  return value.is_null() || value == false || value == "" ||
         (value.is_structured() && value.empty());
}

void ConfigReader::only(std::string_view key, const json &wanted) {
  const json *value = find(key);
  if (!value || *value == wanted || (isInert(wanted) && isInert(*value)))
    return;
  std::string message =
      "expected " + shown(wanted) + ", but got " + shown(*value);
  if (value->type() == wanted.type() || wanted.is_null() ||
      (value->is_number() && wanted.is_number()))
    unsupported(key, message + ", which is not supported");
  else
    malformed(key, message, cost::Diag::wrong_type);
}

bool ConfigReader::dropout(std::string_view key) {
  double rate = number(key, 0.0, /*zeroAllowed=*/true);
  if (rate < 1.0)
    return rate > 0.0;
  malformed(key,
            "expected a probability below 1, but got " +
                shown(object[std::string(key)]),
            cost::Diag::out_of_range);
  return false;
}

/// Levenshtein distance, for a hint at a misspelt key.
static size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string ConfigReader::hintAt(std::string_view key) const {
  if (key.size() < 64)
    for (const std::string &candidate : known)
      if (!object.contains(candidate) && distance(key, candidate) <= 2)
        return "; did you mean \"" + candidate + "\"?";
  return "";
}

void ConfigReader::refuseUnknown(std::vector<std::string> *notes) {
  for (const auto &[key, value] : object.items()) {
    if (known.count(key) || ignored.count(key) || value.is_null())
      continue; // null says that there is no such thing
    const std::string hint = hintAt(key);
    if (!isInert(value))
      unsupported(key,
                  "expected only known keys, but got " + shown(value) +
                      " for a key that may change the computation; remove the "
                      "key if it does not" +
                      hint,
                  cost::Diag::unsupported_key);
    else if (notes && !hint.empty())
      notes->push_back(where(key) + ": not known, and passed over as " +
                       shown(value) + " turns nothing on" + hint);
  }
}

} // namespace shardwright
