#include "tools/shardwright/Expectation.h"

#include "cost_model/search/Report.h"
#include "tools/shardwright/Inputs.h"

#include <cmath>
#include <cstdio>

namespace shardwright::tools {

using namespace cost;

namespace {

std::string seconds(double value) { return secondsText(Seconds(value)); }
std::string bytes(double value) {
  return bytesText(Bytes(static_cast<int64_t>(value)));
}

const struct {
  const char *key, *what;
  std::string (*text)(double);
} quantities[] = {
    {"step_time_seconds", "a step time", seconds},
    {"memory_bytes_per_rank_max", "a memory of the fullest rank", bytes},
};

std::string signedPercent(double percent) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.3g %%", percent);
  return text;
}

} // namespace

bool checkExpectation(const std::string &file, double tolerance,
                      const Json &now, Failure &failure) {
  std::string text;
  if (!readText(file, text, failure))
    return false;
  const Json then = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!then.is_object())
    return refuse(failure, Diag::not_json,
                  file + ": expected a report of predict --json, but it is no "
                         "JSON object");
  for (const auto &[key, what, write] : quantities) {
    // A bound keeps the text of the value short, and the cast to bytes sound.
    if (!then.contains(key) || !then[key].is_number() ||
        !(then[key].get<double>() > 0 && then[key].get<double>() < 1e18)) {
      failure = {};
      return refuse(
          failure, Diag::wrong_value,
          file + "#/" + key +
              ": expected a positive number, as predict --json writes it");
    }
    const double wanted = then[key], got = now[key].is_number()
                                               ? now[key].get<double>()
                                               : HUGE_VAL;
    const double moved = 100 * (got / wanted - 1);
    if (std::abs(moved) <= tolerance)
      continue;
    char within[32];
    std::snprintf(within, sizeof within, "%g %%", tolerance);
    refuse(
        failure, Diag::expectation,
        file + ": expected " + what + " within " + within + " of " +
        write(wanted) + ", but got " +
        (std::isfinite(got) ? write(got) + " (" + signedPercent(moved) + ")"
                            : "one without an end"));
  }
  return failure.messages.empty();
}

} // namespace shardwright::tools
