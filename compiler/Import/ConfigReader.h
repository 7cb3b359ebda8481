//===- ConfigReader.h - Typed reads of a JSON object ------------*- C++ -*-===//
//
// Collects every problem of an object instead of stopping at the first. Used
// by the .cpp files of this folder only: it shows nlohmann's types.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_CONFIGREADER_H
#define SHARDWRIGHT_COMPILER_IMPORT_CONFIGREADER_H

#include "cost_model/base/Failure.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// Problems found so far; malformed input outranks unsupported input.
using Problems = cost::Failure;

/// `text` for a message: quoted as JSON, shortened, valid UTF-8.
std::string shown(const nlohmann::json &value);

/// Whether `value` says that there is no such thing: null, false, 0, and empty
/// texts, lists and objects.
bool isInert(const nlohmann::json &value);

/// Parses `text`, refusing duplicate keys, which JSON parsers silently merge.
std::optional<nlohmann::json>
parseStrict(std::string_view text, const std::string &file, Problems &problems);

/// Reads members of one object; every key asked for counts as known.
class ConfigReader {
public:
  ConfigReader(const nlohmann::json &object, std::string file,
               std::string pointer, Problems &problems)
      : object(object), file(std::move(file)), pointer(std::move(pointer)),
        problems(problems) {}

  /// The member, null if it is absent or null.
  const nlohmann::json *find(std::string_view key);
  bool has(std::string_view key) const;

  /// An integer in [1, limit]. `fallback` < 0 makes the key required.
  int64_t size(std::string_view key, int64_t limit, int64_t fallback = -1);
  /// A finite number > 0 (>= 0 if `zeroAllowed`).
  double number(std::string_view key, double fallback,
                bool zeroAllowed = false);
  double requiredNumber(std::string_view key);
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);

  /// The key is allowed only with this value (if that is inert, with any inert
  /// one): others change the computation in a way that is not supported.
  void only(std::string_view key, const nlohmann::json &value);
  /// The key never changes the computation.
  void ignore(std::string_view key) { ignored.insert(std::string(key)); }
  /// A dropout probability: checked; true if it is greater than zero.
  bool dropout(std::string_view key);

  /// Reports every member that nothing above has named, but for inert ones;
  /// those that look misspelt go to `notes`.
  void refuseUnknown(std::vector<std::string> *notes = nullptr);

  void malformed(std::string_view key, const std::string &what,
                 cost::Diag id = cost::Diag::wrong_value);
  void unsupported(std::string_view key, const std::string &what,
                   cost::Diag id = cost::Diag::unsupported_setting);
  std::string where(std::string_view key) const;

private:
  /// "; did you mean ...?" at a key that is close to an absent one, or "".
  std::string hintAt(std::string_view key) const;

  const nlohmann::json &object;
  std::string file, pointer;
  Problems &problems;
  std::set<std::string> known, ignored;
};

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_CONFIGREADER_H
