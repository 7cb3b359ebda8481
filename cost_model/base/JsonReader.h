//===- JsonReader.h - Strict reading of closed JSON objects -----*- C++ -*-===//
//
// Private to the loaders of this folder (it exposes nlohmann::json, which no
// public header may). Every problem of a file is collected: missing, unknown
// and duplicate keys, wrong types.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_JSONREADER_H
#define SHARDWRIGHT_COST_MODEL_BASE_JSONREADER_H

#include "cost_model/base/Failure.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// Finds the first key that an object holds twice; nlohmann::json keeps the
/// last and says nothing.
class DuplicateKeyFinder : public nlohmann::json::json_sax_t {
public:
  std::string duplicate; ///< JSON pointer, or empty
  std::string error;     ///< of the parser, or empty

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t &) override {
    return value();
  }
  bool string(string_t &) override { return value(); }
  bool binary(binary_t &) override { return value(); }
  bool start_object(std::size_t) override {
    value();
    open.push_back({});
    return isShallow();
  }
  bool key(string_t &key) override {
    open.back().key = key;
    if (!open.back().keys.insert(key).second && duplicate.empty())
      for (const Frame &frame : open)
        duplicate +=
            "/" + (frame.isArray ? std::to_string(frame.next - 1) : frame.key);
    return true;
  }
  bool end_object() override {
    open.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    value();
    open.push_back({true, 0, "", {}});
    return isShallow();
  }
  bool end_array() override { return end_object(); }
  bool parse_error(std::size_t, const std::string &,
                   const nlohmann::json::exception &exception) override {
    error = exception.what();
    if (size_t end = error.find("] "); end != std::string::npos)
      error.erase(0, end + 2); // nlohmann's own number of the error
    return false;
  }

private:
  struct Frame {
    bool isArray = false;
    size_t next = 0; ///< index of the element that follows
    std::string key; ///< last key seen
    std::set<std::string> keys;
  };
  /// nlohmann::json prints by recursion: what is too deep is never kept.
  bool isShallow() {
    constexpr size_t levels = 64;
    if (open.size() > levels)
      error = "expected at most " + std::to_string(levels) +
              " levels of nesting, but got more";
    return open.size() <= levels;
  }
  bool value() {
    if (!open.empty() && open.back().isArray)
      ++open.back().next;
    return true;
  }
  std::vector<Frame> open;
};

/// Parses `text`; duplicate keys of one object are errors.
inline bool parseStrictly(std::string_view text, const std::string &file,
                          nlohmann::json &value, Failure &failure) {
  // nlohmann::json ends at a NUL and reads nothing behind it.
  if (size_t nul = text.find('\0'); nul != text.npos)
    return refuse(failure, Diag::not_json,
                  file + ": not JSON: a NUL byte at offset " +
                      std::to_string(nul));
  DuplicateKeyFinder finder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &finder))
    return refuse(failure, Diag::not_json,
                  file + ": not JSON: " + finder.error);
  if (!finder.duplicate.empty())
    return refuse(failure, Diag::duplicate_key,
                  file + "#" + finder.duplicate +
                      ": expected every key once, but got it twice");
  value = nlohmann::json::parse(text.begin(), text.end());
  return true;
}

/// What a figure of a machine is counted in, the ends of what any machine may
/// have, far on either side of all that there are, and the unit of data sheets
/// that people write instead.
struct Unit {
  std::string_view name; ///< "bytes a second"
  double least, most;
  std::string_view other; ///< "GB/s"
  double otherIn;         ///< of the unit in one of the other: 1e9
};

/// One object, read key by key; `finish` reports the keys nobody asked for.
class JsonObject {
public:
  /// `reading` chooses what stands for a value that cannot be read: other
  /// readings, other values.
  JsonObject(const nlohmann::json &object, std::string where, Failure &failure,
             int reading = 0)
      : reading(reading), object(object), where(std::move(where)),
        failure(failure) {
    if (!object.is_object() && !isMissing(object))
      complain("", "expected an object, but got " + shown(object),
               Diag::wrong_type);
  }

  /// Whether an optional key is there and not null; it may be either.
  bool has(const std::string &key) {
    asked.insert(key);
    return object.is_object() && object.contains(key) && !object[key].is_null();
  }
  /// A key that may be there and says nothing to us.
  void ignore(const std::string &key) { asked.insert(key); }

  /// The value at `key`; complains and returns a null value if it is absent.
  const nlohmann::json &at(const std::string &key) {
    asked.insert(key);
    if (!object.is_object())
      return missing();
    auto found = object.find(key);
    if (found == object.end()) {
      complain("/" + key, "expected a value, but the key is missing",
               Diag::missing_key);
      return missing();
    }
    return *found;
  }
  JsonObject child(const std::string &key) {
    return JsonObject(at(key), where + "/" + key, failure, reading);
  }

  /// Ends of what files may say: far from any machine, and near enough that no
  /// product of a few of them leaves a double, nor their sums an int64.
  static constexpr double maxNumber = 1e18, leastFraction = 1e-6;
  static constexpr int64_t maxInteger = int64_t(1) << 53;

  double number(const std::string &key, double least = 0,
                double most = maxNumber) {
    const nlohmann::json &value = at(key);
    if (!value.is_number()) {
      if (!isMissing(value))
        complain("/" + key, "expected a number, but got " + shown(value),
                 Diag::wrong_type);
      return least;
    }
    if (value.get<double>() < least)
      complain("/" + key,
               "expected a number >= " + std::to_string(least) + ", but got " +
                   value.dump(),
               Diag::out_of_range);
    else if (value.get<double>() > most)
      complain("/" + key,
               "expected a number <= " + nlohmann::json(most).dump() +
                   ", but got " + value.dump(),
               Diag::out_of_range);
    else
      return value.get<double>();
    return least;
  }
  /// A figure in `unit`; with `orZero` 0 stands for none.
  double figure(const std::string &key, const Unit &unit, bool orZero = false) {
    const nlohmann::json &value = at(key);
    if (!value.is_number())
      return number(key, unit.least); // says so
    const double got = value.get<double>();
    const auto isPlausible = [&](double figure) {
      return figure >= unit.least && figure <= unit.most;
    };
    if (isPlausible(got) || (orZero && got == 0))
      return got;
    const auto text = [](double number) {
      std::ostringstream stream;
      stream << number;
      return stream.str();
    };
    complain("/" + key,
             "expected " + std::string(orZero ? "0 or " : "") +
                 std::string(unit.name) + " from " + text(unit.least) + " to " +
                 text(unit.most) + ", but got " + shown(value) +
                 (isPlausible(got * unit.otherIn)
                      ? ", which would be " + text(got * unit.otherIn) +
                            " if it were " + std::string(unit.other)
                      : ""),
             got < 0 ? Diag::out_of_range : Diag::wrong_unit);
    return unit.least;
  }
  /// A number in (0, 1].
  double fraction(const std::string &key) {
    const double value = number(key);
    if (value <= 0 || value > 1)
      complain("/" + key,
               "expected a fraction in (0, 1], but got " +
                   std::to_string(value),
               Diag::out_of_range);
    else if (value < leastFraction)
      complain("/" + key,
               "expected a fraction >= " +
                   nlohmann::json(leastFraction).dump() + ", but got " +
                   nlohmann::json(value).dump(),
               Diag::out_of_range);
    return value;
  }
  int64_t integer(const std::string &key, int64_t least,
                  int64_t most = maxInteger) {
    const nlohmann::json &value = at(key);
    // Numbers above int64 are unsigned to nlohmann and would wrap in get().
    const bool huge = value.is_number_unsigned() &&
                      value.get<uint64_t>() > uint64_t(maxInteger);
    if (value.is_number_integer() && !huge && value.get<int64_t>() >= least &&
        value.get<int64_t>() <= most)
      return value.get<int64_t>();
    if (!isMissing(value))
      complain("/" + key,
               (most == maxInteger && !huge
                    ? "expected an integer >= " + std::to_string(least)
                    : "expected an integer from " + std::to_string(least) +
                          " to " + std::to_string(most)) +
                   ", but got " + shown(value),
               value.is_number_integer() ? Diag::out_of_range
                                         : Diag::wrong_type);
    return std::min(most, least + reading);
  }
  bool boolean(const std::string &key) {
    const nlohmann::json &value = at(key);
    if (value.is_boolean())
      return value.get<bool>();
    if (!isMissing(value))
      complain("/" + key, "expected true or false, but got " + shown(value),
               Diag::wrong_type);
    return reading != 0;
  }
  /// Complains unless the key "schema" is `wanted`.
  void schema(std::string_view wanted) {
    if (const std::string found = string("schema"); found != wanted)
      complain("/schema",
               "expected '" + std::string(wanted) + "', but got '" + found +
                   "'",
               Diag::wrong_schema);
  }
  std::string string(const std::string &key) {
    const nlohmann::json &value = at(key);
    if (value.is_string())
      return value.get<std::string>();
    if (!isMissing(value))
      complain("/" + key, "expected a string, but got " + shown(value),
               Diag::wrong_type);
    return std::string(static_cast<size_t>(reading), '?');
  }
  /// A source is required and may not be empty.
  std::string source(const std::string &key = "source") {
    std::string value = string(key);
    if (value.empty())
      complain("/" + key, "expected where the figures come from",
               Diag::missing_source);
    return value;
  }
  /// Elements of the array at `key`, each with its pointer.
  std::vector<JsonObject> objects(const std::string &key) {
    std::vector<JsonObject> result;
    const nlohmann::json &value = at(key);
    if (!value.is_array()) {
      if (!isMissing(value))
        complain("/" + key, "expected an array, but got " + shown(value),
                 Diag::wrong_type);
      return result;
    }
    for (size_t i = 0; i < value.size(); ++i)
      result.emplace_back(value[i], where + "/" + key + "/" + std::to_string(i),
                          failure, reading);
    return result;
  }

  void complain(const std::string &suffix, const std::string &message,
                Diag id = Diag::wrong_value) {
    refuse(failure, id, where + suffix + ": " + message);
  }
  void finish() {
    if (!object.is_object())
      return;
    for (auto it = object.begin(); it != object.end(); ++it)
      if (asked.count(it.key()) == 0)
        complain("/" + it.key(), "unknown key", Diag::unknown_key);
  }

  /// What `at` answers for a key that is not there; told apart from a null.
  static const nlohmann::json &missing() {
    static const nlohmann::json none;
    return none;
  }
  static bool isMissing(const nlohmann::json &value) {
    return &value == &missing();
  }
  /// A value as messages show it: long ones are cut.
  static std::string shown(const nlohmann::json &value) {
    std::string text =
        value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
  }

  const int reading;

private:
  const nlohmann::json &object;
  std::string where;
  Failure &failure;
  std::set<std::string> asked;
};

/// Calls `each(object)` for every line of a .jsonl file that is not blank and can
/// be parsed. False if anything was wrong, `each`'s complaints included.
template <typename Each>
bool forEachJsonLine(std::string_view text, std::string_view file,
                     Failure &failure, Each each) {
  const size_t before = failure.messages.size();
  failure.kind = FailureKind::Input;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos)
      continue;
    const std::string where = std::string(file) + ":" + std::to_string(line);
    nlohmann::json root;
    if (parseStrictly(content, where, root, failure))
      each(JsonObject(root, where + "#", failure));
  }
  return failure.messages.size() == before;
}

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_JSONREADER_H
