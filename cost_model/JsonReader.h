//===- JsonReader.h - Strict reading of closed JSON objects -----*- C++ -*-===//
//
// Private to the loaders of this folder (it exposes nlohmann::json, which no
// public header may). Every problem of a file is collected: missing, unknown
// and duplicate keys, wrong types.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_JSONREADER_H
#define SHARDWRIGHT_COST_MODEL_JSONREADER_H

#include "cost_model/Failure.h"

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// Parses `text`; duplicate keys of one object are errors.
inline bool parseStrictly(std::string_view text, const std::string &file,
                          nlohmann::json &value, Failure &failure) {
  std::vector<std::set<std::string>> open;
  std::string duplicate;
  auto watch = [&](int, nlohmann::json::parse_event_t event,
                   nlohmann::json &parsed) {
    if (event == nlohmann::json::parse_event_t::object_start)
      open.emplace_back();
    else if (event == nlohmann::json::parse_event_t::object_end)
      open.pop_back();
    else if (event == nlohmann::json::parse_event_t::key &&
             !open.back().insert(parsed.get<std::string>()).second)
      duplicate = parsed.get<std::string>();
    return true;
  };
  try {
    value = nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception &error) {
    failure.messages.push_back(file + ": not JSON: " + error.what());
    return false;
  }
  if (!duplicate.empty()) {
    failure.messages.push_back(file + ": expected every key once, but got '" +
                               duplicate + "' twice in one object");
    return false;
  }
  return true;
}

/// One object, read key by key; `finish` reports the keys nobody asked for.
class JsonObject {
public:
  JsonObject(const nlohmann::json &object, std::string where, Failure &failure)
      : object(object), where(std::move(where)), failure(failure) {
    if (!object.is_object())
      complain("", "expected an object");
  }

  bool has(const std::string &key) {
    return object.is_object() && object.contains(key) && !object[key].is_null();
  }

  /// The value at `key`; complains and returns a null value if it is absent.
  const nlohmann::json &at(const std::string &key) {
    static const nlohmann::json none;
    asked.insert(key);
    if (!object.is_object())
      return none;
    auto found = object.find(key);
    if (found == object.end()) {
      complain("/" + key, "expected a value, but the key is missing");
      return none;
    }
    return *found;
  }
  JsonObject child(const std::string &key) {
    return JsonObject(at(key), where + "/" + key, failure);
  }

  double number(const std::string &key, double least = 0) {
    const nlohmann::json &value = at(key);
    if (!value.is_number()) {
      if (!value.is_null())
        complain("/" + key, "expected a number, but got " + value.dump());
      return least;
    }
    if (value.get<double>() < least)
      complain("/" + key, "expected a number >= " + std::to_string(least) +
                              ", but got " + value.dump());
    return value.get<double>();
  }
  /// A number in (0, 1].
  double fraction(const std::string &key) {
    const double value = number(key);
    if (value <= 0 || value > 1)
      complain("/" + key, "expected a fraction in (0, 1], but got " +
                              std::to_string(value));
    return value;
  }
  int64_t integer(const std::string &key, int64_t least) {
    const nlohmann::json &value = at(key);
    if (!value.is_number_integer() || value.get<int64_t>() < least) {
      complain("/" + key, "expected an integer >= " + std::to_string(least) +
                              ", but got " + value.dump());
      return least;
    }
    return value.get<int64_t>();
  }
  bool boolean(const std::string &key) {
    const nlohmann::json &value = at(key);
    if (!value.is_boolean()) {
      complain("/" + key, "expected true or false, but got " + value.dump());
      return false;
    }
    return value.get<bool>();
  }
  std::string string(const std::string &key) {
    const nlohmann::json &value = at(key);
    if (!value.is_string()) {
      complain("/" + key, "expected a string, but got " + value.dump());
      return "";
    }
    return value.get<std::string>();
  }
  /// A source is required and may not be empty.
  std::string source(const std::string &key = "source") {
    std::string value = string(key);
    if (value.empty())
      complain("/" + key, "expected where the figures come from");
    return value;
  }
  /// Elements of the array at `key`, each with its pointer.
  std::vector<JsonObject> objects(const std::string &key) {
    std::vector<JsonObject> result;
    const nlohmann::json &value = at(key);
    if (!value.is_array()) {
      complain("/" + key, "expected an array, but got " + value.dump());
      return result;
    }
    for (size_t i = 0; i < value.size(); ++i)
      result.emplace_back(value[i], where + "/" + key + "/" + std::to_string(i),
                          failure);
    return result;
  }

  void complain(const std::string &suffix, const std::string &message) {
    failure.messages.push_back(where + suffix + ": " + message);
  }
  void finish() {
    if (!object.is_object())
      return;
    for (auto it = object.begin(); it != object.end(); ++it)
      if (asked.count(it.key()) == 0)
        complain("/" + it.key(), "unknown key");
  }

private:
  const nlohmann::json &object;
  std::string where;
  Failure &failure;
  std::set<std::string> asked;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_JSONREADER_H
